/**
 * Sends mail through a relay: implements `core/mail/MailTransport` on the `nodemailer` package,
 * which is loaded with the first message. `SMTP_URL` names the relay:
 * `smtp://user:password@host:587` (STARTTLS if the relay offers it, or always with
 * `?requireTLS=true`) or `smtps://…:465`. DKIM signatures, reputation and delivery are the relay's
 * job.
 *
 * 1. The boundaries of a message are a hash of its id and its parts: a message that is sent again
 *    has the same bytes, and no text can contain the boundary of its own message.
 * 2. The relay's reply decides, for the message and for each recipient: 5xx is permanent, any other
 *    failure may be retried.
 */
import { createHash } from "node:crypto";
import * as Effect from "effect/Effect";
import * as Layer from "effect/Layer";
import type { SendMailOptions } from "nodemailer";
import {
  MailTransport,
  NO_MAIL_TRANSPORT,
  type MailAddress,
  type MailResult,
  type MailTransportShape,
  type OutgoingMail,
  type Unsent,
} from "../../core/mail/MailTransport.ts";
import { defined } from "../../core/collections/defined.ts";

/** Relays answer in seconds; some delay new senders for half a minute. */
const CONNECT_TIMEOUT_MS = 20_000;
const GREETING_TIMEOUT_MS = 30_000; // as above
/** RFC 5321 lets senders wait minutes for the reply to DATA, but other mails wait behind. */
const SOCKET_TIMEOUT_MS = 60_000;
/** The agents of a host share the connections. */
const CONNECTIONS_MAX = 5;

/** Replies about the login or the encryption of the connection (RFC 4954, RFC 3207). */
const LOGIN_CODES: ReadonlySet<number> = new Set([530, 534, 535, 538]);
/** Commands that refer to a message; `nodemailer` sends others before the first. */
const OF_MESSAGE = /^(?:MAIL|RCPT|DATA|API)/;

/**
 * True if the relay's refusal is permanent. A refused connection or login is not: it does not
 * concern the message, and ends once the setting or the relay is repaired.
 */
const isFinal = ({ responseCode = 0, code, command }: RelayError): boolean =>
  responseCode >= 500 &&
  responseCode < 600 &&
  code !== "EAUTH" &&
  !LOGIN_CODES.has(responseCode) &&
  (command === undefined || OF_MESSAGE.test(command));

interface RelayError extends Error {
  readonly responseCode?: number | undefined;
  readonly code?: string | undefined;
  /** The SMTP command that was answered; `CONN` for the greeting. */
  readonly command?: string | undefined;
  /** For the refusal of one recipient. */
  readonly recipient?: string | undefined;
}

/** Throws `TypeError` for an invalid URL, without naming the URL, which holds a password. */
function makeSmtpRelay(url: string): MailTransportShape & { readonly close: () => void } {
  checkUrl(url);
  let transport: Promise<Awaited<ReturnType<typeof open>>> | undefined;
  return {
    configured: true,
    send: async (mail) => {
      try {
        const sent = await (await (transport ??= open(url))).sendMail(optionsOf(mail));
        return { _tag: "Sent", ...unsentOf(sent.rejectedErrors ?? []) };
      } catch (error) {
        return failureOf(error as RelayError);
      }
    },
    close: () => void transport?.then((opened) => opened.close()),
  };
}

const open = async (url: string) =>
  (await import("nodemailer")).createTransport({
    url,
    pool: true,
    maxConnections: CONNECTIONS_MAX,
    connectionTimeout: CONNECT_TIMEOUT_MS,
    greetingTimeout: GREETING_TIMEOUT_MS,
    socketTimeout: SOCKET_TIMEOUT_MS,
    // A message is text and bytes: nodemailer must read no file or URL for it.
    disableFileAccess: true,
    disableUrlAccess: true,
  });

/** Rule 2. */
function unsentOf(errors: ReadonlyArray<RelayError>): Unsent {
  const recipients = (final: boolean): ReadonlyArray<string> =>
    errors.filter((error) => isFinal(error) === final).map(({ recipient = "" }) => recipient);
  return { refused: recipients(true), deferred: recipients(false) };
}

/** Rule 2. */
function failureOf(error: RelayError): MailResult {
  const message = error.message || String(error.code);
  return isFinal(error) ? { _tag: "Refused", message } : { _tag: "Failed", message };
}

function optionsOf(mail: OutgoingMail): SendMailOptions {
  const envelope =
    mail.envelope === undefined
      ? undefined
      : { from: mail.envelope.from, to: [...mail.envelope.to] };
  if (mail.raw !== undefined)
    return { raw: Buffer.from(mail.raw, "base64"), ...(envelope && { envelope }) };
  const part = (type: string) => mail.parts.find(({ contentType }) => isType(contentType, type));
  const text = part("text/plain")?.content;
  const html = part("text/html")?.content;
  const others = mail.parts.filter(
    ({ contentType }) => !isType(contentType, "text/plain") && !isType(contentType, "text/html"),
  );
  return {
    messageId: mail.id,
    date: new Date(mail.dateMs),
    from: nodeAddress(mail.from),
    to: mail.to.map(nodeAddress),
    ...(mail.cc && { cc: mail.cc.map(nodeAddress) }),
    ...(mail.bcc && { bcc: mail.bcc.map(nodeAddress) }),
    ...(mail.replyTo && { replyTo: nodeAddress(mail.replyTo) }),
    subject: mail.subject,
    ...(mail.inReplyTo && { inReplyTo: mail.inReplyTo }),
    ...(mail.references && { references: [...mail.references] }),
    headers: { ...mail.headers },
    ...defined({ text, html }),
    alternatives: others.map(({ contentType, content }) => ({ contentType, content })),
    baseBoundary: boundaryOf(mail),
    ...(envelope && { envelope }),
  };
}

/** RFC 2046: a boundary has at most 70 characters, with what nodemailer puts around it. */
const BOUNDARY_CHARS = 32;

/** Rule 1. */
const boundaryOf = ({ id, parts }: OutgoingMail): string =>
  createHash("sha256")
    .update(JSON.stringify([id, parts]))
    .digest("hex")
    .slice(0, BOUNDARY_CHARS);

const isType = (contentType: string, type: string): boolean =>
  contentType.split(";", 1)[0]!.trim().toLowerCase() === type;

const nodeAddress = ({ address, name = "" }: MailAddress) => ({ address, name });

function checkUrl(url: string): void {
  let protocol: string | undefined;
  try {
    ({ protocol } = new URL(url));
  } catch {
    // Refused below like another protocol, without the text, which may hold a password.
  }
  if (protocol !== "smtp:" && protocol !== "smtps:")
    throw new TypeError(
      "SMTP_URL (--smtp-relay) is not an smtp:// or smtps:// URL. Example: smtp://user:password@relay.example.com:587",
    );
}

/** Without a URL, sending fails with a message that names the setting. */
export const smtpRelayLayer = (url: string | undefined): Layer.Layer<MailTransport> =>
  url === undefined
    ? Layer.succeed(MailTransport, NO_MAIL_TRANSPORT)
    : Layer.effect(
        MailTransport,
        Effect.acquireRelease(
          Effect.sync(() => makeSmtpRelay(url)),
          (relay) => Effect.sync(() => relay.close()),
        ),
      );
