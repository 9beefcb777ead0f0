/**
 * Runs one stored signal of a workflow as a turn: the agent or the instance that it came to knows what it
 * means (`AgentWorkflows`, `WorkflowRun`). That it applies once is the mailbox's doing, by its key.
 */
import { decodeSignal } from "../../schemas/WorkflowSignal.ts";
import { RECEIVE } from "../agent/AgentWorkflows.ts";
import type { ActiveAgent } from "../turn/ActiveAgent.ts";

/** Rejects with what the hook throws, and with `CorruptFrame`. */
export async function runWorkflowSignal(agent: ActiveAgent, body: Uint8Array): Promise<void> {
  await agent.agent[RECEIVE](decodeSignal(body));
}
