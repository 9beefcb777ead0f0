/**
 * The feed port: every event as it is stored, of one agent, of a class or of all, for those who
 * look on (`agents tail`). Agents themselves never need it: an agent's own host knows what it
 * commits.
 *
 * 1. Every event that is stored after `follow` has resolved is given once, each agent's in stored
 *    order, and nothing that was refused is. Between agents there is no order where they lie in
 *    several streams.
 * 2. One at a time: the next is given when the handler's promise for the one before has resolved. A
 *    slow follower is behind, it loses nothing.
 * 3. A broker that goes away and comes back costs time only.
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
