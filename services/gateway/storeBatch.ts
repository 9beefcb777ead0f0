/**
 * A webhook that holds several events: each becomes an input of its own, for the agent that its own
 * part of the body names. Fed by `WebhookEndpoint`, which answers when this is done.
 *
 * 1. All are stored, or the batch is not: the provider sends it again, and what was stored is known by
 *    its id.
 * 2. Events of one agent are stored in the batch's order.
 * 3. An event that names no agent is passed over and logged: refusing the batch for it would lose the
 *    others, each time that it is sent again. When none of them names one, the batch is refused.
 * 4. Each event takes a token of its agent's. A batch with an agent that has none left is refused whole, before
 *    anything is stored: answering for a part would lose the rest.
 */
import type { InboxShape } from "../../core/inbox/Inbox.ts";
import type { LogShape } from "../../core/telemetry/Log.ts";
import { BATCH_STORED, UNAVAILABLE } from "../../core/webhook/answers.ts";
import { itemRequest } from "../../core/webhook/itemRequest.ts";
import type {
  BatchItem,
  PlainAnswer,
  WebhookRequest,
  WebhookRoute,
} from "../../core/webhook/WebhookRoute.ts";
import { addressKey, type AgentId } from "../../schemas/Address.ts";
import { encodeEnvelope } from "../../schemas/InboxEnvelope.ts";
import type { RateLimit } from "./RateLimit.ts";
import { agentOf, webhookHead } from "./webhookInput.ts";

/** SendGrid's 768 KB hold some thousand events, Meta's batches at most 1,000; each is a message here. */
export const BATCH_ITEMS_MAX = 20_000;
/** Agents whose events are stored side by side: enough to keep the broker busy. */
const LANES = 64;

export interface Batch {
  readonly route: WebhookRoute;
  readonly request: WebhookRequest;
  readonly items: ReadonlyArray<BatchItem>;
  readonly replayId: string | undefined;
  readonly headers: Readonly<Record<string, string>>;
}

export interface BatchPorts {
  readonly inbox: Pick<InboxShape, "publish">;
  readonly log: LogShape;
  readonly id: () => string;
  readonly signal: AbortSignal;
  readonly limit?: Pick<RateLimit, "takeAll"> | undefined;
}

interface Lane {
  readonly key: string;
  readonly id: AgentId;
  readonly envelopes: Array<Uint8Array>;
}

/** The answer for the whole batch. Never rejects for what the broker does. */
export async function storeBatch(batch: Batch, ports: BatchPorts): Promise<PlainAnswer> {
  const { lanes, refusals } = lanesOf(batch, ports.id);
  const [first] = refusals;
  if (first !== undefined) {
    ports.log.warn("events of a webhook's batch name no agent and are passed over", {
      route: batch.route.path,
      events: refusals.length,
      of: batch.items.length,
      why: first.body,
    });
    if (lanes.length === 0) return first; // 3
  }
  const counts = lanes.map(({ key, envelopes }) => [key, envelopes.length] as const);
  const waitSeconds = ports.limit?.takeAll(counts) ?? 0; // 4
  if (waitSeconds > 0) return tooManyEvents(waitSeconds);
  const waiting = lanes.values();
  const stored = await Promise.all(
    Array.from({ length: Math.min(LANES, lanes.length) }, () => storeLanes(waiting, ports)),
  );
  return stored.every(Boolean) ? BATCH_STORED : UNAVAILABLE; // 1
}

function lanesOf(
  { route, request, items, replayId, headers }: Batch,
  id: () => string,
): { readonly lanes: ReadonlyArray<Lane>; readonly refusals: ReadonlyArray<PlainAnswer> } {
  const { "content-length": _length, ...kept } = headers;
  const sent = { ...kept, "content-type": "application/json" };
  const lanes = new Map<string, Lane>();
  const refusals: PlainAnswer[] = [];
  for (const [i, item] of items.entries()) {
    const found = agentOf(route, itemRequest(request, item.body));
    if (found._tag === "Refused") {
      refusals.push(found.answer);
      continue;
    }
    const head = webhookHead({
      route,
      request,
      headers: sent,
      entity: found.entity,
      dedupId: item.dedupId,
      id,
      replayId: replayId === undefined ? undefined : `${replayId}#${i}`,
      eventType: item.eventType,
    });
    const key = addressKey(found.id);
    const lane = lanes.get(key) ?? { key, id: found.id, envelopes: [] };
    lane.envelopes.push(encodeEnvelope(head, item.body));
    lanes.set(key, lane);
  }
  return { lanes: [...lanes.values()], refusals };
}

const tooManyEvents = (seconds: number): PlainAnswer => ({
  status: 429,
  headers: { "content-type": "text/plain;charset=UTF-8", "retry-after": String(seconds) },
  body: "Too many requests",
});

/** Takes lanes until there are none; false at the first event that is not known to be stored. */
async function storeLanes(
  lanes: Iterator<Lane>,
  { inbox, log, signal }: BatchPorts,
): Promise<boolean> {
  for (let next = lanes.next(); next.done !== true; next = lanes.next()) {
    const { id, envelopes } = next.value;
    for (const envelope of envelopes) {
      // 2
      const result = await inbox.publish(id, envelope, { signal });
      if (result._tag === "Stored") continue;
      log.error("an event of a webhook's batch could not be stored", {
        ...id,
        why: result.message,
      });
      return false;
    }
  }
  return true;
}
