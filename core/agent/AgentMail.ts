/**
 * The part of `Agent` that gets and sends mail (`protocol.md` §8).
 * Between `AgentWorkflows` and `Agent` in the chain of classes.
 */
import { AgentWorkflows } from "./AgentWorkflows.ts";

export class AgentMail extends AgentWorkflows {}
