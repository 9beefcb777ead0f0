/**
 * Stores a webhook that contains several events, or goes to several agents. Each event becomes a
 * separate input for each target that accepts it, for the agent that the target finds in its part
 * of the body. `WebhookEndpoint` answers the webhook afterwards.
 *
 * 1. The batch succeeds only if every event is stored. Otherwise the provider sends it again, and
 *    the events that were stored are recognized by their ids.
 * 2. Events of one agent are stored in the batch's order.
 * 3. An event that names no agent is skipped and logged, because refusing the batch would lose the
 *    other events on every repetition. If no event names an agent, the batch is refused. An event
 *    counts once for each target that accepts it.
 * 4. An event that no target accepts is left out. If none is left, nothing is stored.
 * 5. Each event takes a token of its agent. If an agent has none left, the whole batch is refused
 *    before anything is stored, because an answer for a part would lose the rest.
 */
import type { InboxShape } from "../../core/inbox/Inbox.ts";
import type { LogShape } from "../../core/telemetry/Log.ts";
import { BATCH_STORED, FILTERED, UNAVAILABLE } from "../../core/webhook/answers.ts";
import { itemRequest } from "../../core/webhook/itemRequest.ts";
import {
  targetsOf,
  type BatchItem,
  type PlainAnswer,
  type WebhookRequest,
  type WebhookRoute,
} from "../../core/webhook/WebhookRoute.ts";
import { addressKey, type AgentId } from "../../schemas/Address.ts";
import { encodeEnvelope } from "../../schemas/InboxEnvelope.ts";
import type { RateLimit } from "./RateLimit.ts";
import { agentOf, webhookHead } from "./webhookInput.ts";

/**
 * SendGrid's 768 KB contain about a thousand events, and Meta's batches at most 1,000. Each event
 * is stored as one message.
 */
export const BATCH_ITEMS_MAX = 20_000;
/** Agents whose events are stored concurrently: enough to keep the broker busy. */
const AGENTS_AT_ONCE = 64;

interface Batch {
  readonly route: WebhookRoute;
  readonly request: WebhookRequest;
  readonly items: ReadonlyArray<BatchItem>;
  /** Whether the only item is the whole request. Default: each item is a part of its body. */
  readonly isWhole?: boolean;
  /** The id of the whole request, if the provider sends one. */
  readonly replayId: string | undefined;
  /** The delivery's id. Its n-th event is the part `<id>.<n>`. */
  readonly delivery: string;
  /** As in `InputParts`. */
  readonly traceparent?: string | undefined;
  /** The headers to store, without credentials. */
  readonly headers: Readonly<Record<string, string>>;
}

interface BatchPorts {
  readonly inbox: Pick<InboxShape, "publish">;
  readonly log: LogShape;
  /** Creates the key of an event that has no id. */
  readonly id: () => string;
  /** Ends attempts to store. */
  readonly signal: AbortSignal;
  readonly limit?: Pick<RateLimit, "takeAll"> | undefined;
}

/** The events of one agent, in the batch's order. */
interface AgentEvents {
  readonly key: string;
  readonly id: AgentId;
  readonly envelopes: Array<Uint8Array>;
}

/** Resolves to the answer to the whole batch, also when the broker is unavailable. */
export async function storeBatch(batch: Batch, ports: BatchPorts): Promise<PlainAnswer> {
  const { agents, refusals } = eventsByAgent(batch, ports.id);
  const [first] = refusals;
  if (agents.length === 0 && first !== undefined) return first; // rule 3
  if (agents.length === 0 && batch.items.length > 0) return FILTERED; // rule 4
  const counts = agents.map(({ key, envelopes }) => [key, envelopes.length] as const);
  if (first !== undefined)
    ports.log.warn("events of a webhook name no agent and were skipped", {
      route: batch.route.path,
      delivery: batch.delivery,
      events: refusals.length,
      of: counts.reduce((sum, [, events]) => sum + events, refusals.length),
      why: first.body,
    });
  const waitSeconds = ports.limit?.takeAll(counts) ?? 0; // rule 5
  if (waitSeconds > 0) return tooManyEvents(waitSeconds);
  const queue = agents.values();
  const workers = Math.min(AGENTS_AT_ONCE, agents.length);
  const stored = await Promise.all(Array.from({ length: workers }, () => storeFrom(queue, ports)));
  return stored.every(Boolean) ? BATCH_STORED : UNAVAILABLE; // rule 1
}

function eventsByAgent(
  { route, request, items, isWhole = false, replayId, delivery, traceparent, headers }: Batch,
  id: () => string,
): { readonly agents: ReadonlyArray<AgentEvents>; readonly refusals: ReadonlyArray<PlainAnswer> } {
  const { "content-length": _length, ...kept } = headers;
  const sent = isWhole ? headers : { ...kept, "content-type": "application/json" };
  const agents = new Map<string, AgentEvents>();
  const refusals: PlainAnswer[] = [];
  let parts = 0;
  for (const [i, item] of items.entries()) {
    const own = isWhole ? request : itemRequest(request, item.body);
    for (const target of targetsOf(route, own)) {
      const found = agentOf(target, own);
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
        replayId: replayId === undefined || isWhole ? replayId : `${replayId}#${i}`,
        eventType: item.eventType,
        delivery: `${delivery}.${parts++}`,
        traceparent,
      });
      const key = addressKey(found.id);
      const agent = agents.get(key) ?? { key, id: found.id, envelopes: [] };
      agent.envelopes.push(encodeEnvelope(head, item.body));
      agents.set(key, agent);
    }
  }
  return { agents: [...agents.values()], refusals };
}

const tooManyEvents = (seconds: number): PlainAnswer => ({
  status: 429,
  headers: { "content-type": "text/plain;charset=UTF-8", "retry-after": String(seconds) },
  body: "Too many requests",
});

/**
 * Stores the events of agents until the queue is empty. Resolves to false at the first event that
 * is not known to be stored.
 */
async function storeFrom(
  queue: Iterator<AgentEvents>,
  { inbox, log, signal }: BatchPorts,
): Promise<boolean> {
  for (let next = queue.next(); next.done !== true; next = queue.next()) {
    const { id, envelopes } = next.value;
    for (const envelope of envelopes) {
      // Rule 2.
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
