/**
 * A dead letter: an input that is no longer retried, as it was stored, and the reason. A `Frame`
 * whose body is the input's own frame (`InboxEnvelope`).
 */
import * as Schema from "effect/Schema";
import { decoded, decodeFrame, encodeFrame } from "./Frame.ts";

export const DeadLetterHead = Schema.Struct({
  agent: Schema.Tuple([Schema.String, Schema.String]),
  /** The input's sequence in the inbox. */
  seq: Schema.Number,
  reason: Schema.String,
  host: Schema.String,
  time: Schema.Number,
  /** Steps of its turn were undone: a redrive has new idempotency keys. Absent: none. */
  undone: Schema.optionalKey(Schema.Literal(true)),
});
export type DeadLetterHead = typeof DeadLetterHead.Type;

export const encodeDeadLetter = (head: DeadLetterHead, input: Uint8Array): Uint8Array =>
  encodeFrame(head, input);

const decodeHead = Schema.decodeUnknownResult(DeadLetterHead);

/** Throws `CorruptFrame` or `UnknownVersion`. */
export function decodeDeadLetter(bytes: Uint8Array): {
  readonly head: DeadLetterHead;
  readonly input: Uint8Array;
} {
  const frame = decodeFrame(bytes);
  return { head: decoded(decodeHead(frame.head), "a dead letter"), input: frame.body };
}
