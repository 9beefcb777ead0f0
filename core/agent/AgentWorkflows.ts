/**
 * The part of `Agent` that starts workflows and follows them (`protocol.md` §7).
 * Between `AgentJobs` and `AgentMail` in the chain of classes.
 */
import { AgentJobs } from "./AgentJobs.ts";

export class AgentWorkflows extends AgentJobs {}
