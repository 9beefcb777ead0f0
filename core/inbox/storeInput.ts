/**
 * Stores an envelope in an agent's inbox for callers that can't continue before it is stored: lanes
 * of jobs and signals, and a host's unstored inputs.
 */
import type { AgentId, Sequence } from "../../schemas/Address.ts";
import { BrokerUnavailable } from "../bus/Bus.ts";
import type { InboxShape } from "./Inbox.ts";

/** Rejects with `BrokerUnavailable` if it is not known to be stored when `signal` fires. */
export async function storeInput(
  inbox: Pick<InboxShape, "publish">,
  id: AgentId,
  data: Uint8Array,
  signal: AbortSignal,
): Promise<Sequence> {
  const result = await inbox.publish(id, data, { signal });
  if (result._tag !== "Stored") throw new BrokerUnavailable({ message: result.message });
  return result.seq;
}
