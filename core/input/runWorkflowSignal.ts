/**
 * Runs one stored signal of a workflow as a turn. The receiver knows what the signal means: an
 * agent that started a workflow (`WorkflowApi`), or a workflow instance (`WorkflowRun`). The
 * mailbox ensures that a signal applies once, by its key.
 */
import { decodeSignal, type WorkflowSignal } from "../../schemas/WorkflowSignal.ts";

/** The method of an object that receives its own signals. A symbol: no outside call reaches it. */
export const RECEIVE: unique symbol = Symbol("agents.receiveWorkflowSignal");

type Receive = (signal: WorkflowSignal) => Promise<void>;

export interface SignalReceiver {
  readonly agent: { readonly [RECEIVE]?: Receive };
  readonly apis: { readonly workflows: { readonly receive: Receive } };
}

/** Rejects with what the hook throws, and with `CorruptFrame`. */
export async function runWorkflowSignal(
  { agent, apis }: SignalReceiver,
  body: Uint8Array,
): Promise<void> {
  const signal = decodeSignal(body);
  if (agent[RECEIVE] === undefined) await apis.workflows.receive(signal);
  else await agent[RECEIVE](signal);
}
