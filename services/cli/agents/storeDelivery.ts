/**
 * Stores a past webhook in an agent's inbox, and its delivery in the log: for `agents redeliver`,
 * and for `agents dev --from`, whose past webhooks are another installation's.
 */
import { defined } from "../../../core/collections/defined.ts";
import type { AgentId } from "../../../schemas/Address.ts";
import { encodeEnvelope, type InboxEnvelope } from "../../../schemas/InboxEnvelope.ts";
import { STORE_TIMEOUT_MS, type ReadPorts } from "../../wiring/ReadPorts.ts";

export interface DeliveryAgain {
  /** One of `deliveryIds`. */
  readonly id: string;
  /** The original delivery, if known. */
  readonly of: string | undefined;
  readonly to: AgentId;
  /** The input's dedup key. */
  readonly key: string;
  readonly envelope: InboxEnvelope;
}

/** Returns the reason if it could not be stored. */
export async function storeDelivery(
  { inbox, deliveries }: Pick<ReadPorts, "inbox" | "deliveries">,
  nowMs: number,
  { id, of, to, key, envelope: { head, body } }: DeliveryAgain,
): Promise<string | undefined> {
  const data = encodeEnvelope({ ...head, key, delivery: id, time: nowMs }, body);
  const stored = await inbox.publish(to, data, { signal: AbortSignal.timeout(STORE_TIMEOUT_MS) });
  if (stored._tag !== "Stored") return `it could not be stored in the inbox: ${stored.message}`;
  const { route, provider, type } = head;
  deliveries.record({
    id,
    at: nowMs,
    time: nowMs,
    status: "stored",
    agent: [to.class, to.name],
    key,
    bytes: body.length,
    ...defined({ of, route, provider, type }),
  });
  return undefined;
}
