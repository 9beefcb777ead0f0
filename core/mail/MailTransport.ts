/**
 * The outgoing mail port: hands a message to a relay, and says what the relay said.
 * `services/smtp/SmtpRelay` implements it on SMTP; tests keep what was sent. Fed by an agent's
 * `MailLane`, by `env.EMAIL`, and by mail that a module answers or forwards while SMTP waits.
 *
 * 1. One message sent twice is the same bytes: its Message-ID and Date are its own, not the
 *    attempt's.
 * 2. Whoever calls has checked the parts (`composeMail`): nothing in them breaks a header line.
 */
import * as Context from "effect/Context";

export interface MailAddress {
  readonly address: string;
  readonly name?: string;
}

export interface MailPart {
  /** e.g. `text/plain`. */
  readonly contentType: string;
  readonly content: string;
}

/** JSON: it waits in the agent's database until it is sent. */
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
  /** Alternatives of one content, the plainest first. */
  readonly parts: ReadonlyArray<MailPart>;
  readonly headers: Readonly<Record<string, string>>;
  readonly inReplyTo?: string;
  readonly references?: ReadonlyArray<string>;
  /**
   * Sender and recipients for the relay; default: those of the headers. An empty sender: nobody is
   * told of failure.
   */
  readonly envelope?: { readonly from: string; readonly to: ReadonlyArray<string> };
  /** A whole message in base64, sent as it is; then only `envelope` counts beside it. */
  readonly raw?: string;
}

export type MailResult =
  /** The relay has it. `refused`: recipients that it did not take, while it took others. */
  | { readonly _tag: "Sent"; readonly refused: ReadonlyArray<string> }
  /** A repetition would be refused as well. */
  | { readonly _tag: "Refused"; readonly message: string }
  /** The relay was not reached, broke off, or asked to try later. */
  | { readonly _tag: "Failed"; readonly message: string };

export interface MailTransportShape {
  /** False: no relay is set, and nothing can be sent. */
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
