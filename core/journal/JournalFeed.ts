/**
 * The feed port: every event as it is stored, of one agent, of a class or of all, for observers
 * such as `agents tail`. Agents don't need it: their host knows its own commits.
 *
 * 1. Every event that is stored after `follow` has resolved is passed on once, each agent's in
 *    stored order; refused events never are. There is no order between agents of different streams.
 * 2. One at a time: the next event follows when the handler's promise for the previous one has
 *    resolved. A slow follower falls behind and loses nothing.
 * 3. An unreachable broker only causes a delay.
 *
 * Adapters: `services/nats/NatsJournalFeed`, `services/memory/MemoryJournalFeed`; one conformance
 * suite.
 */
import * as Context from "effect/Context";
import type { AgentId } from "../../schemas/Address.ts";
import type { StoredEvent } from "./Journal.ts";

export type FeedFilter =
  /** Every agent. */
  { readonly className?: undefined } | { readonly className: string; readonly name?: string };

export type FeedHandler = (id: AgentId, event: StoredEvent) => void | Promise<void>;

export interface JournalFeedShape {
  /**
   * Resolves when the feed has begun; it goes on until `signal` fires. `onFailed` is called when it
   * can't (the handler threw, an event's bytes are lost), and nothing follows. Rejects with
   * `BrokerUnavailable`.
   */
  readonly follow: (
    filter: FeedFilter,
    handler: FeedHandler,
    options: { readonly signal: AbortSignal; readonly onFailed: (error: unknown) => void },
  ) => Promise<void>;
}

export class JournalFeed extends Context.Service<JournalFeed, JournalFeedShape>()(
  "agents/core/journal/JournalFeed",
) {}
