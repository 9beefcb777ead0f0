/**
 * An agent at one journal sequence: the result of replaying `1..seq`. A `Frame` whose body is the
 * SQLite image (page 1 to the last, empty when the agent has no database).
 *
 * The `core` part of the local cache has the same layout with an empty body: its pages are stored
 * beside it.
 */
import * as Schema from "effect/Schema";
import { Cause } from "./JournalEvent.ts";
import { decoded, decodeFrame, encodeFrame, encodeFrameJson } from "./Frame.ts";

/** Where an agent's trimmed events lie in the archive (`services/archive/SegmentArchive`). */
export const ArchivePlace = Schema.Struct({
  segment: Schema.String,
  offset: Schema.Number,
  bytes: Schema.Number,
  /** SHA-256 of those bytes, in hex. */
  sha256: Schema.String,
});
export type ArchivePlace = typeof ArchivePlace.Type;

export const SnapshotHead = Schema.Struct({
  agent: Schema.Tuple([Schema.String, Schema.String]),
  /** Sequence of the last journal event in it. */
  seq: Schema.Number,
  /** Epoch of that event. */
  epoch: Schema.Number,
  time: Schema.Number,
  /** Absent while the state was never set. */
  state: Schema.optionalKey(Schema.Unknown),
  /** The text of the state that splices refer to, where reading `state` would lead to another. */
  stateText: Schema.optionalKey(Schema.String),
  /** The done set, oldest first: `[key, time in ms, journal seq]`. */
  done: Schema.Array(Schema.Tuple([Schema.String, Schema.Number, Schema.Number])),
  /** Inputs begun and not done: `[key, attempts so far, inbox sequence]`. */
  begun: Schema.Array(Schema.Tuple([Schema.String, Schema.Number, Schema.Number])),
  /**
   * Steps that are done of inputs begun and not done: `[key of the input, [key of the step, its
   * result], …]`. A step without a result returned `undefined`. Absent: none.
   */
  steps: Schema.optionalKey(
    Schema.Array(Schema.Tuple([Schema.String, Schema.Array(Schema.Array(Schema.Unknown))])),
  ),
  /**
   * The parts at the journal's end that the next owner undoes: sequence of the first, and the
   * turns, as `[key, kind]`. Absent: none.
   */
  parts: Schema.optionalKey(
    Schema.Tuple([Schema.Number, Schema.Array(Schema.Tuple([Schema.String, Cause.fields.kind]))]),
  ),
  /** Sequence of the last `destroyed` event. Absent: none. */
  life: Schema.optionalKey(Schema.Number),
  /** The entity that the agent belongs to (`Cause`). Absent: none is known. */
  entity: Schema.optionalKey(Schema.String),
  /** Pages in the image. */
  pages: Schema.Number,
  /** For a local cache's core: number and bytes of events since the last snapshot. Absent: none. */
  since: Schema.optionalKey(Schema.Tuple([Schema.Number, Schema.Number])),
  /** For a base: where the last archived events before it are. Absent: they were not archived. */
  archive: Schema.optionalKey(ArchivePlace),
});
export type SnapshotHead = typeof SnapshotHead.Type;

/** JSON text of the state, as splices refer to it; undefined: it was never set. */
export const stateTextOf = ({ state, stateText }: SnapshotHead): string | undefined =>
  stateText ?? (state === undefined ? undefined : JSON.stringify(state));

export interface Snapshot {
  readonly head: SnapshotHead;
  readonly image: Uint8Array;
}

/** `stateText`: the state as JSON, for a head without it: a large one need not be parsed first. */
export const encodeSnapshot = (
  head: SnapshotHead,
  image?: Uint8Array,
  stateText?: string,
): Uint8Array =>
  stateText === undefined
    ? encodeFrame(head, image)
    : encodeFrameJson(`${JSON.stringify(head).slice(0, -1)},"state":${stateText}}`, image);

const decodeHead = Schema.decodeUnknownResult(SnapshotHead);

/** Throws `CorruptFrame` or `UnknownVersion`. */
export function decodeSnapshot(bytes: Uint8Array): Snapshot {
  const frame = decodeFrame(bytes);
  return { head: decoded(decodeHead(frame.head), "a snapshot"), image: frame.body };
}
