/**
 * The mail that an agent sends: a lane like the queue's and beside it, as for webhooks
 * (`OutgoingLane`). In order, one at a time, with all its attempts; what fails for good goes to the
 * dead letters and to `onError`.
 *
 * 1. Nothing is sent before the commit of the turn that asked for it (`QueueLane`, rule 1).
 * 2. A message's id is made of the input and the count of mails before it: a turn that runs again
 *    asks for the same message, which replaces the one that waits, and which the receiver can tell
 *    by its Message-ID.
 * 3. A message that the relay accepts for some recipients only is sent again to those that it asks
 *    to try later, and to nobody else: its further attempts have only them in the envelope.
 */
import { encodeToken } from "../../schemas/Address.ts";
import { withDefaults } from "../collections/withDefaults.ts";
import type { RetryOptions } from "../retry/RetryOptions.ts";
import { EmailFailed, EmailRefused, stamped, throwUnlessSent } from "../mail/EmailBinding.ts";
import type { MailDraft } from "../mail/composeMail.ts";
import { NO_RELAY, type MailTransportShape, type OutgoingMail } from "../mail/MailTransport.ts";
import { MAIL_KEYS } from "../journal/laneKeys.ts";
import type { QueueItem } from "../queue/QueueTable.ts";
import { QueueLane, type JobPorts, type QueueAgent } from "../queue/QueueLane.ts";

/**
 * About ten minutes on average: greylisting and a relay's restart are shorter. Longer outages are
 * an operator's, who redrives the dead letters.
 */
export const MAIL_RETRY_DEFAULT = {
  maxAttempts: 12,
  baseDelayMs: 1_000,
  maxDelayMs: 300_000,
} as const;

export interface MailLaneParts {
  readonly jobs: JobPorts;
  readonly mail: MailTransportShape;
}

/** Mail that waits to be sent. */
export const MAIL_TABLE = "svc_agents_mail";

export class MailLane extends QueueLane {
  readonly #agent: QueueAgent;
  readonly #transport: MailTransportShape;

  constructor(agent: QueueAgent, parts: MailLaneParts) {
    super(agent, parts.jobs, {
      table: MAIL_TABLE,
      keys: MAIL_KEYS,
      payload: "sendEmail: the mail",
      events: "email",
      callback: () => (mail, item) => this.#send(mail as OutgoingMail, item as QueueItem),
      mayRetry: (error) => !(error instanceof EmailRefused),
      ceiling: "outgoingMax",
    });
    this.#agent = agent;
    this.#transport = parts.mail;
  }

  /** The Message-ID. Throws `EmailRefused` without a relay, and for retry options out of range. */
  send(draft: MailDraft, retry: RetryOptions = {}): string {
    if (!this.#transport.configured) throw new EmailRefused({ message: NO_RELAY });
    const id = this.#newId();
    const mail = stamped(draft, id, this.#agent.time.nowMs());
    // Not under the Message-ID, which may be the caller's: a second one must not replace the first.
    this.push("sendEmail", mail, {
      id,
      retry: withDefaults<RetryOptions>(MAIL_RETRY_DEFAULT, retry),
    });
    return mail.id;
  }

  /** Rule 2. Tells people which agent wrote. */
  #newId(): string {
    const turn = this.#agent.turn();
    const name = encodeToken(this.#agent.id.name).slice(0, NAME_CHARS_KEPT);
    const { id } = turn.cause;
    if (!turn.durable || id === undefined) return `${name}.${this.#agent.time.id()}`;
    const input = encodeToken(id.slice(id.indexOf(":") + 1)).slice(0, INPUT_CHARS_KEPT);
    return `${name}.${input}.${++turn.mailsSent}`;
  }

  async #send(mail: OutgoingMail, { id }: QueueItem): Promise<void> {
    const { refused, deferred } = throwUnlessSent(await this.#transport.send(mail), mail);
    if (refused.length > 0)
      this.#agent.log.warn("a mail was refused for some of its recipients", {
        id: mail.id,
        refused: refused.join(", "),
      });
    if (deferred.length === 0) return;
    const from = mail.envelope?.from ?? mail.from.address;
    this.amend(id, { ...mail, envelope: { from, to: deferred } }); // rule 3
    const whom = deferred.join(", ");
    throw new EmailFailed({
      message: `The mail to ${whom} was not sent: the relay asked to try later, and accepted it for others`,
    });
  }
}

/** A Message-ID is one header line: together well below its 998 characters. */
const NAME_CHARS_KEPT = 64;
const INPUT_CHARS_KEPT = 200;
