/**
 * Mail out through a relay (`core/mail/MailTransport`), on the `nodemailer` package, which is loaded with the
 * first message. The relay is `SMTP_URL`: `smtp://user:password@host:587` (STARTTLS where it is offered) or
 * `smtps://…:465`. Signing by DKIM, reputation and delivery to the world are the relay's.
 *
 * 1. A message's boundaries come of its id: sent again it is the same bytes.
 * 2. What the relay says decides: a code of 5xx is for good, everything else may be tried again.
 */
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
} from "../../core/mail/MailTransport.ts";

/** Relays answer in seconds; some hold new senders back for half a minute. */
const CONNECT_TIMEOUT_MS = 20_000;
const GREETING_TIMEOUT_MS = 30_000; // as above
/** RFC 5321 has senders wait minutes for the answer to DATA; a host's lane has others behind it. */
const SOCKET_TIMEOUT_MS = 60_000;
/** A host's agents share them. */
const CONNECTIONS_MAX = 5;

/** The relay says no for good. Credentials that are refused are not the message's fault: those wait. */
const isFinal = ({ responseCode = 0, code }: RelayError): boolean =>
  responseCode >= 500 && responseCode < 600 && code !== "EAUTH";

interface RelayError extends Error {
  readonly responseCode?: number;
  readonly code?: string;
}

/** Throws `TypeError` for a URL that is none; `message` has no password in it. */
export function makeSmtpRelay(url: string): MailTransportShape & { readonly close: () => void } {
  checkUrl(url);
  let transport: Promise<Awaited<ReturnType<typeof open>>> | undefined;
  return {
    configured: true,
    send: async (mail) => {
      try {
        const sent = await (await (transport ??= open(url))).sendMail(optionsOf(mail));
        return { _tag: "Sent", refused: sent.rejected ?? [] };
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
    // A message is text and bytes: it names no files and no URLs for us to read.
    disableFileAccess: true,
    disableUrlAccess: true,
  });

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
    ...(text === undefined ? {} : { text }),
    ...(html === undefined ? {} : { html }),
    alternatives: others.map(({ contentType, content }) => ({ contentType, content })),
    baseBoundary: Buffer.from(mail.id).toString("hex").slice(-BOUNDARY_CHARS), // rule 1
    ...(envelope && { envelope }),
  };
}

/** RFC 2046: a boundary has at most 70 characters, with what nodemailer puts around it. */
const BOUNDARY_CHARS = 32;

const isType = (contentType: string, type: string): boolean =>
  contentType.split(";", 1)[0]!.trim().toLowerCase() === type;

const nodeAddress = ({ address, name = "" }: MailAddress) => ({ address, name });

function checkUrl(url: string): void {
  let protocol: string | undefined;
  try {
    ({ protocol } = new URL(url));
  } catch {
    // The same refusal as for another protocol, below: the text may hold a password.
  }
  if (protocol !== "smtp:" && protocol !== "smtps:")
    throw new TypeError(
      "SMTP_URL (--smtp-relay) is no smtp:// or smtps:// URL: write smtp://user:password@relay.example.com:587",
    );
}

/** Without a URL nothing can be sent, and whoever tries is told what to set. */
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
