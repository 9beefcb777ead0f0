/**
 * The snapshot port: the last few images of an agent, newest first, and its base.
 *
 * 1. Snapshots are never the truth: losing all of them only makes activation slower.
 * 2. A base is the truth: it stands for the events that were trimmed from the journal. It is a
 *    `Snapshot` frame too, at the event before the journal's first. Hosts' snapshots do not
 *    displace it.
 * 3. A base is replaced by compare-and-set, so that a process that woke up late changes nothing.
 *    The last `BASES_KEPT` are kept; `core/retention/trimAgent` stores each twice before it trims.
 *
 * Adapters: `services/nats/NatsSnapshots` (large ones compressed and, past the payload limit, in
 * the blob store), `services/memory/MemorySnapshots`.
 */
import * as Context from "effect/Context";
import type { AgentId } from "../../schemas/Address.ts";

/** Kept per agent: the newest may be bad, and then the one before it serves. */
export const SNAPSHOTS_KEPT = 2;
/** One may be damaged on its disk. The stream keeps this many messages of each subject. */
export const BASES_KEPT = SNAPSHOTS_KEPT;

/** An agent's bases, as stored. */
export interface StoredBases {
  /** Revision of the newest. `putBase` has to name it. */
  readonly revision: number;
  /** Newest first; undefined for one that can't be read. At least one element. */
  readonly copies: ReadonlyArray<Uint8Array | undefined>;
}

export interface SnapshotsShape {
  /** Stores a `Snapshot` frame. Rejects with `BrokerUnavailable`; the caller goes on without it. */
  readonly put: (id: AgentId, data: Uint8Array) => Promise<void>;
  /** Snapshot frames, newest first, unreadable ones too. Rejects with `BrokerUnavailable`. */
  readonly newestFirst: (id: AgentId) => AsyncIterable<Uint8Array>;
  /**
   * Undefined for an agent that was never trimmed. Always the latest: what it returns is not older
   * than the last trim. Rejects with `BrokerUnavailable`.
   */
  readonly bases: (id: AgentId) => Promise<StoredBases | undefined>;
  /**
   * Stores a base if the newest has `revision` (0: there is none). Resolves to the new revision;
   * undefined when another is there. Rejects with `BrokerUnavailable`, after which it may be
   * stored.
   */
  readonly putBase: (
    id: AgentId,
    data: Uint8Array,
    revision: number,
  ) => Promise<number | undefined>;
  /** Removes an erased agent's bases, up to `revision`'s. Rejects with `BrokerUnavailable`. */
  readonly removeBases: (id: AgentId, revision: number) => Promise<void>;
}

export class Snapshots extends Context.Service<Snapshots, SnapshotsShape>()(
  "agents/core/snapshot/Snapshots",
) {}
