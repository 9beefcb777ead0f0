/**
 * The journal port: one append-only log per agent, fenced by compare-and-set.
 *
 * 1. `append` stores an event iff the agent's last sequence equals `expectedSeq`; so of two hosts
 *    that both believe they own an agent at most one continues (the journal is the fence).
 * 2. An event is stored whole or not at all, and is never changed. `trim` removes the oldest ones;
 *    the last one, which rule 1 compares with, always stays.
 * 3. `read` returns events in sequence order, without a gap, as they were appended.
 * 4. An ambiguous append (its ack was lost) is resolved by the adapter: it reads the last event
 *    back and compares. It never appends blindly a second time.
 *
 * Outcomes are closed unions and methods return promises, not effects: this is the per-commit path.
 * Adapters: `services/nats/NatsJournal`, `services/memory/MemoryJournal`; one conformance suite.
 */
import * as Context from "effect/Context";
import { addressKey, type AgentId, type Sequence } from "../../schemas/Address.ts";

export interface StoredEvent {
  readonly seq: Sequence;
  /** When the broker stored it, milliseconds since the epoch. */
  readonly storedMs: number;
  /** A `JournalEvent` frame, as it was appended (claim checks already resolved). */
  readonly data: Uint8Array;
}

export type AppendResult =
  | { readonly _tag: "Stored"; readonly seq: Sequence }
  /** Another writer's event came first. Nothing was stored. */
  | { readonly _tag: "Conflict" }
  /** The outcome could not be learnt before `signal` fired: it may or may not be stored. */
  | { readonly _tag: "Unknown"; readonly message: string };

export interface JournalEntry {
  readonly id: AgentId;
  readonly events: number;
}

export interface JournalShape {
  /**
   * Appends one event after `expectedSeq` (0: the journal is empty). While the broker is
   * unreachable it keeps trying until `signal` fires. Several appends of different agents may be in
   * flight.
   */
  readonly append: (
    id: AgentId,
    data: Uint8Array,
    options: { readonly expectedSeq: Sequence; readonly signal: AbortSignal },
  ) => Promise<AppendResult>;
  /** Events with `fromSeq <= seq <= toSeq` (default: all). Rejects with `BrokerUnavailable`. */
  readonly read: (
    id: AgentId,
    range: { readonly fromSeq: Sequence; readonly toSeq?: Sequence },
  ) => AsyncIterable<StoredEvent>;
  /**
   * The last event, or undefined for an agent that has none. An event whose bytes are lost is
   * returned for its sequence, and does not decode. Rejects with `BrokerUnavailable`.
   */
  readonly last: (id: AgentId) => Promise<StoredEvent | undefined>;
  /** As `last`, for several agents, in order. May leave out an event that was stored just now. */
  readonly lastOfEach: (
    ids: ReadonlyArray<AgentId>,
  ) => Promise<ReadonlyArray<StoredEvent | undefined>>;
  /** The oldest event that there is, or undefined for an agent that has none. Rejects as `last`. */
  readonly first: (id: AgentId) => Promise<StoredEvent | undefined>;
  /**
   * Removes the events before `keepFromSeq`, which is the sequence of one of them. Resolves to the
   * number of removed events. Rejects with `BrokerUnavailable`, after which it can be repeated, and
   * with `RangeError` for a sequence after the last event.
   */
  readonly trim: (id: AgentId, keepFromSeq: Sequence) => Promise<number>;
  /** Agents that have a journal, of one class or name, or of all, unordered, as a stream. */
  readonly list: (className?: string, name?: string) => AsyncIterable<JournalEntry>;
}

/** The error of a `trim` that would leave no event. */
export const pastTheEnd = (id: AgentId, keepFromSeq: Sequence): RangeError =>
  new RangeError(
    `trim of ${addressKey(id)}: ${keepFromSeq} is after its last event, which must stay`,
  );

export class Journal extends Context.Service<Journal, JournalShape>()(
  "agents/core/journal/Journal",
) {}
