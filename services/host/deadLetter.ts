/**
 * Stores an input that exhausted its attempts as a dead letter, without the fields that its route
 * or class hides. Rejects with `BrokerUnavailable`.
 */
import type { AgentId } from "../../schemas/Address.ts";
import { encodeDeadLetter } from "../../schemas/DeadLetter.ts";
import { isUnreadable } from "../../schemas/Frame.ts";
import { decodeEnvelope, encodeEnvelope } from "../../schemas/InboxEnvelope.ts";
import { hideFields } from "../../core/redaction/FieldRedaction.ts";
import type { HostServices } from "./HostServices.ts";

export async function deadLetter(
  services: HostServices,
  id: AgentId,
  letter: {
    /** Inbox sequence; 0 for a job, which is stored in the agent's own database. */
    readonly seq: number;
    readonly reason: string;
    /** As `DeadLetterHead`. */
    readonly undone?: boolean;
    /** An `InboxEnvelope` frame. */
    readonly input: Uint8Array;
  },
): Promise<void> {
  const { config, time, deadLetters, metrics } = services;
  const head = {
    agent: [id.class, id.name] as const,
    seq: letter.seq,
    reason: letter.reason,
    host: config.hostId,
    time: time.nowMs(),
    ...(letter.undone === true ? { undone: true as const } : {}),
  };
  const { redact } = services.module().agents.get(id.class)?.options ?? {};
  await deadLetters.put(id, encodeDeadLetter(head, withoutFields(letter.input, redact)));
  metrics.ofClass(id.class).deadLetter();
}

/** An envelope as it is kept. One that can't be read stays as it is. */
function withoutFields(input: Uint8Array, redact: ReadonlyArray<string> | undefined): Uint8Array {
  try {
    const envelope = decodeEnvelope(input);
    const { body } = hideFields(envelope, redact);
    return body === envelope.body ? input : encodeEnvelope(envelope.head, body);
  } catch (error) {
    if (isUnreadable(error)) return input;
    throw error;
  }
}
