/** Dead letters as a test reads them. */
import type { StoredDeadLetter } from "../../core/dead/DeadLetters.ts";
import { causeOfEnvelope } from "../../core/journal/causeOf.ts";
import type { Sequence } from "../../schemas/Address.ts";
import { decodeDeadLetter } from "../../schemas/DeadLetter.ts";
import { decodeEnvelope } from "../../schemas/InboxEnvelope.ts";
import type { Cause } from "../../schemas/JournalEvent.ts";

export interface TestDeadLetter {
  /** For `redrive`. */
  readonly id: number;
  readonly agent: { readonly class: string; readonly name: string };
  /** The last attempt's error. */
  readonly reason: string;
  readonly timeMs: number;
  /** What came in: kind, id, type, headers, body. */
  readonly cause: Cause;
}

/** Throws `CorruptFrame` for an input that can't be read. */
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
