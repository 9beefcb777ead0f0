/**
 * The mark of an agent that is quarantined: why, by which host, and until when. A `Frame` without a
 * body, one per agent. A mark that is over stays until the agent is erased, so that the next one
 * knows how often there was one.
 */
import * as Schema from "effect/Schema";
import { decoded, decodeFrame, encodeFrame } from "./Frame.ts";

export const QuarantineMark = Schema.Struct({
  /** `kills`: its turns end their processes. `journal`: its journal can't be read. */
  kind: Schema.Literals(["kills", "journal"]),
  /** For people. */
  reason: Schema.String,
  /** The host that quarantined it. */
  host: Schema.String,
  /** Milliseconds since the epoch. */
  sinceMs: Schema.Number,
  /** The end of the quarantine. In the past: it is over. */
  untilMs: Schema.Number,
  /** From 1: how often in a row, each time for longer. */
  times: Schema.Number,
  /** Version of the module's code. Absent: not known. Other code is given a try at once. */
  version: Schema.optionalKey(Schema.String),
});
export type QuarantineMark = typeof QuarantineMark.Type;

export const encodeQuarantineMark = (mark: QuarantineMark): Uint8Array => encodeFrame(mark);

const decodeHead = Schema.decodeUnknownResult(QuarantineMark);

/** Throws `CorruptFrame` or `UnknownVersion`. */
export function decodeQuarantineMark(bytes: Uint8Array): QuarantineMark {
  return decoded(decodeHead(decodeFrame(bytes).head), "a quarantine mark");
}
