/**
 * The archive port: where events go before they are trimmed. Optional; without it, trimmed events
 * are lost.
 *
 * 1. `put` resolves when the events are durable and were read back. Only then is a base stored that
 *    names their place, and only then are they trimmed (`trimAgent`).
 * 2. Each part names the one before it, so that one agent's events are found from its base without
 *    reading others'. A part that nothing names (its writer died) is harmless.
 * 3. Nothing that is stored changes, except that `erase` removes an agent's parts.
 *
 * Adapter: `services/archive/SegmentArchive`, over a folder or a bucket.
 */
import * as Data from "effect/Data";
import type { AgentId, Sequence } from "../../schemas/Address.ts";
import type { ErasedPart } from "../../schemas/ErasureReceipt.ts";
import type { ArchivePlace } from "../../schemas/Snapshot.ts";
import type { StoredEvent } from "../journal/Journal.ts";

/** The archive is unreachable, full, or has lost data. Trimming waits, and nothing is lost. */
export class ArchiveUnavailable extends Data.TaggedError("ArchiveUnavailable")<{
  readonly message: string;
}> {}

export interface ArchivedPart {
  /** In order, without a gap; frames as they were in the journal. */
  readonly events: ReadonlyArray<StoredEvent>;
  /** Where the agent's events before these are; undefined: these are the first in the archive. */
  readonly previous: ArchivePlace | undefined;
}

/** The part without its events. */
export interface PartBegin extends Pick<ArchivedPart, "previous"> {
  readonly firstSeq: Sequence;
}

export interface ArchiveShape {
  /**
   * `stateBefore`: JSON text of the state before the first event. Rejects with
   * `ArchiveUnavailable`.
   */
  readonly put: (
    id: AgentId,
    part: ArchivedPart & { readonly stateBefore: string | undefined },
  ) => Promise<ArchivePlace>;
  /** Rejects with `ArchiveUnavailable`, or `CorruptFrame` for a part that is damaged or gone. */
  readonly read: (id: AgentId, place: ArchivePlace) => Promise<ArchivedPart>;
  /** Where a part begins, and its predecessor, without its events. Rejects as `read`. */
  readonly begin: (id: AgentId, place: ArchivePlace) => Promise<PartBegin>;
  /** Rejects as `erase` of an agent of the class would, and removes nothing. */
  readonly checkErasable: (className: string) => Promise<void>;
  /**
   * Removes every part of the agents, those that nothing names too, and resolves to what it
   * removed. Rejects with `ArchiveUnavailable`, after which it can be repeated, and with
   * `CorruptFrame` for a damaged index. Reads the indexes of the class. `upTo`: only parts that
   * end by this event; default all.
   */
  readonly erase: (
    className: string,
    names: ReadonlySet<string>,
    upTo?: Sequence,
  ) => Promise<ReadonlyArray<ErasedPart>>;
  /** The last events of the agent's parts, by the indexes. Rejects with `ArchiveUnavailable`. */
  readonly lastSeqsOf: (id: AgentId) => Promise<ReadonlyArray<Sequence>>;
  /** SHA-256 of the bytes at a place; undefined without any. Rejects with `ArchiveUnavailable`. */
  readonly sha256At: (place: ArchivePlace) => Promise<string | undefined>;
}
