/**
 * Converts a dead letter's input to an inbox envelope again. Pure; the caller publishes it and then
 * removes the letter. If it is published twice (the caller died in between), it runs once, because
 * its key is the same.
 *
 * 1. A webhook (or mail, or a workflow's signal) is what it was: dead inputs are remembered by
 *    delivery and not by key, so it runs again, with all its attempts. Nobody waits for its answer
 *    any more. Where steps of it were undone, the world has to take it for another one.
 * 2. A job's row is gone, and its trigger alone would run nothing: it goes as a `redrive`, which
 *    puts it where it was (`core/input/redriveJob`), with its own id and attempts.
 */
import type { StoredDeadLetter } from "./DeadLetters.ts";
import { decodeDeadLetter } from "../../schemas/DeadLetter.ts";
import { decodeEnvelope, encodeEnvelope } from "../../schemas/InboxEnvelope.ts";

/** An `InboxEnvelope` frame. Throws `CorruptFrame` or `UnknownVersion` for an unreadable input. */
export function inputAgain({ seq, data }: StoredDeadLetter): Uint8Array {
  const letter = decodeDeadLetter(data);
  const { head, body } = decodeEnvelope(letter.input);
  const { reply: _gone, ...kept } = head;
  const again = letter.head.undone ? { ...kept, redrive: seq } : kept;
  if (head.kind !== "queue" && head.kind !== "schedule") return encodeEnvelope(again, body);
  const job = { ...head.job, kind: head.kind, key: head.key };
  return encodeEnvelope({ ...again, kind: "redrive", key: `redrive:${seq}`, job }, body);
}
