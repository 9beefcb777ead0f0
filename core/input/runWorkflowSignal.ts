/**
 * Runs one stored signal of a workflow as a turn. The receiver knows what the signal means: an
 * agent that started a workflow (`AgentWorkflows`), or a workflow instance (`WorkflowRun`). The
 * mailbox sees to it that a signal applies once, by its key.
 */
import { decodeSignal, type WorkflowSignal } from "../../schemas/WorkflowSignal.ts";

/** The receiver's entry. A symbol: no call from outside reaches it. */
export const RECEIVE: unique symbol = Symbol("agents.receiveWorkflowSignal");

export interface SignalReceiver {
  readonly agent: { [RECEIVE](signal: WorkflowSignal): Promise<void> };
}

/** Rejects with what the hook throws, and with `CorruptFrame`. */
export async function runWorkflowSignal(agent: SignalReceiver, body: Uint8Array): Promise<void> {
  await agent.agent[RECEIVE](decodeSignal(body));
}
