/** Reads stored dead letters for tests. */
import type { StoredDeadLetter } from "../../core/dead/DeadLetters.ts";
import { causeOfEnvelope } from "../../core/journal/causeOf.ts";
import type { Sequence } from "../../schemas/Address.ts";
import { decodeDeadLetter } from "../../schemas/DeadLetter.ts";
import { decodeEnvelope } from "../../schemas/InboxEnvelope.ts";
import type { Cause } from "../../schemas/JournalEvent.ts";

/** A dead letter, as tests receive it. */
export interface TestDeadLetter {
  /** Identifies the letter for `redrive`. */
  readonly id: number;
  readonly agent: { readonly class: string; readonly name: string };
  /** The last attempt's error. */
  readonly reason: string;
  readonly timeMs: number;
  /** The input: kind, id, type, headers, body. */
  readonly cause: Cause;
}

/** Decodes a dead letter. Throws `CorruptFrame` for an input that can't be read. */
export function readDeadLetter({ seq, id, data }: StoredDeadLetter): TestDeadLetter {
  const { head, input } = decodeDeadLetter(data);
  const envelope = decodeEnvelope(input);
  return {
    id: seq,
    agent: { class: id.class, name: id.name },
    reason: head.reason,
    timeMs: head.time,
    cause: causeOfEnvelope(envelope.head, envelope.body, head.seq as Sequence, 1),
  };
}
