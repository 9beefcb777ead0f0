/**
 * `env.EMAIL`, by which modules send mail (`protocol.md` §8). `this.sendEmail({ binding:
 * this.env.EMAIL, … })` is durable: the mail waits in the agent. `env.EMAIL.send(…)`, for code
 * outside of agents, hands the message to the relay at once and rejects if that fails.
 */
import * as Data from "effect/Data";
import type { RawEmail } from "./AgentEmail.ts";
import { composeMail, type EmailContent, type MailDraft } from "./composeMail.ts";
import { composeRaw } from "./composeReply.ts";
import {
  NO_RELAY,
  type MailTransportShape,
  type OutgoingMail,
  type Unsent,
} from "./MailTransport.ts";
import type { TimeShape } from "../time/Time.ts";

/** A message that was accepted for sending. */
export interface SentEmail {
  /** Its Message-ID, with the angle brackets. */
  readonly messageId: string;
}

/** The relay did not accept it this time; it can be tried again. */
export class EmailFailed extends Data.TaggedError("EmailFailed")<{ readonly message: string }> {}

/** The relay refused it for good, or no relay is configured. */
export class EmailRefused extends Data.TaggedError("EmailRefused")<{ readonly message: string }> {}

/** `env.EMAIL`: hands a message to the relay at once. */
export class EmailBinding {
  readonly #transport: MailTransportShape;
  readonly #time: TimeShape;

  constructor(transport: MailTransportShape, time: TimeShape) {
    this.#transport = transport;
    this.#time = time;
  }

  /**
   * Resolves once the relay has accepted the message for at least one recipient. Rejects with
   * `TypeError` for what can't be sent, `EmailRefused` and `EmailFailed`.
   */
  async send(message: EmailContent | RawEmail): Promise<SentEmail> {
    const draft =
      "raw" in message
        ? await composeRaw(message, "EMAIL.send")
        : composeMail(message, "EMAIL.send");
    return sendNow(this.#transport, this.#time, draft);
  }
}

/** Rejects with `EmailRefused` and `EmailFailed`. */
export async function sendNow(
  transport: MailTransportShape,
  time: TimeShape,
  draft: MailDraft,
): Promise<SentEmail> {
  const mail = stamped(draft, time.id(), time.nowMs());
  throwUnlessSent(transport.configured ? await transport.send(mail) : REFUSED, mail);
  return { messageId: mail.id };
}

const REFUSED = { _tag: "Refused", message: NO_RELAY } as const;

/** Throws `EmailRefused` and `EmailFailed`. */
export function throwUnlessSent(
  result: Awaited<ReturnType<MailTransportShape["send"]>>,
  mail: OutgoingMail,
): Unsent {
  const what = `The mail to ${mail.to.map(({ address }) => address).join(", ")}`;
  if (result._tag === "Refused")
    throw new EmailRefused({ message: `${what} was refused: ${result.message}` });
  if (result._tag === "Failed")
    throw new EmailFailed({ message: `${what} was not sent: ${result.message}` });
  return result;
}

/** Adds the date, and a Message-ID of the sender's domain unless the draft has one. */
export function stamped(draft: MailDraft, unique: string, nowMs: number): OutgoingMail {
  const domain = draft.from.address.slice(draft.from.address.lastIndexOf("@") + 1);
  return { ...draft, id: draft.id ?? `<${unique}@${domain}>`, dateMs: nowMs };
}
