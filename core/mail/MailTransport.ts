/**
 * The outgoing mail port: hands a message to a relay and returns the relay's answer.
 * `services/smtp/SmtpRelay` implements it on SMTP; tests record what was sent. Used by an agent's
 * `MailLane`, by `env.EMAIL`, and for mail that a module answers or forwards while SMTP waits.
 *
 * 1. A message that is sent twice has the same bytes both times: its Message-ID and Date belong to
 *    the message, not to the attempt.
 * 2. The caller has checked the parts (`composeMail`): nothing in them breaks a header line.
 */
import * as Context from "effect/Context";

export interface MailAddress {
  readonly address: string;
  readonly name?: string;
}

interface MailPart {
  /** e.g. `text/plain`. */
  readonly contentType: string;
  readonly content: string;
}

/** JSON, because it waits in the agent's database until it is sent. */
export interface OutgoingMail {
  /** Message-ID, in angle brackets. */
  readonly id: string;
  readonly dateMs: number;
  readonly from: MailAddress;
  readonly to: ReadonlyArray<MailAddress>;
  readonly cc?: ReadonlyArray<MailAddress>;
  readonly bcc?: ReadonlyArray<MailAddress>;
  readonly replyTo?: MailAddress;
  readonly subject: string;
  /** Alternatives of the same content, the plainest first. */
  readonly parts: ReadonlyArray<MailPart>;
  readonly headers: Readonly<Record<string, string>>;
  readonly inReplyTo?: string;
  readonly references?: ReadonlyArray<string>;
  /**
   * Sender and recipients for the relay; default: those of the headers. With an empty sender,
   * nobody is notified of a failure.
   */
  readonly envelope?: { readonly from: string; readonly to: ReadonlyArray<string> };
  /** A whole message in base64, sent as it is. Of the other fields only `envelope` is used. */
  readonly raw?: string;
}

/** The recipients of a mail for whom the relay did not accept it, while it did for others. */
export interface Unsent {
  /** It refused them for good. */
  readonly refused: ReadonlyArray<string>;
  /** It asked to try them later, as relays that greylist do. */
  readonly deferred: ReadonlyArray<string>;
}

export type MailResult =
  /** The relay accepted it for at least one recipient. */
  | ({ readonly _tag: "Sent" } & Unsent)
  /** Another attempt would be refused as well. */
  | { readonly _tag: "Refused"; readonly message: string }
  /** The relay was unreachable, broke off the connection, or asked to try later. */
  | { readonly _tag: "Failed"; readonly message: string };

export interface MailTransportShape {
  /** False if no relay is configured; nothing can then be sent. */
  readonly configured: boolean;
  readonly send: (mail: OutgoingMail) => Promise<MailResult>;
}

export class MailTransport extends Context.Service<MailTransport, MailTransportShape>()(
  "agents/core/mail/MailTransport",
) {}

export const NO_RELAY =
  "No mail relay is configured: set SMTP_URL (smtp://user:password@relay.example.com:587) or --smtp-relay";

export const NO_MAIL_TRANSPORT: MailTransportShape = {
  configured: false,
  send: async () => ({ _tag: "Refused", message: NO_RELAY }),
};
