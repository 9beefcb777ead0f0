/**
 * Composes a message from the arguments of `sendEmail` and `env.EMAIL.send`. Pure.
 *
 * A line break in an address, a name, a subject or a header would let its text start another
 * header. It is refused rather than silently removed.
 */
import type { RetryOptions } from "../retry/RetryOptions.ts";
import { splitAddress } from "./EmailResolver.ts";
import { HEADER_NAME } from "./mailHead.ts";
import type { MailAddress, OutgoingMail } from "./MailTransport.ts";

/** `a@example.com`, `Ann <a@example.com>`, or its parts. */
export type EmailAddress =
  string | { readonly address?: string; readonly email?: string; readonly name?: string };

/** A message to send. It needs a text, or HTML, or both. */
export interface EmailContent {
  readonly from: EmailAddress;
  readonly to: EmailAddress | ReadonlyArray<EmailAddress>;
  readonly subject: string;
  readonly text?: string | undefined;
  readonly html?: string | undefined;
  readonly replyTo?: EmailAddress | undefined;
  readonly cc?: EmailAddress | ReadonlyArray<EmailAddress> | undefined;
  readonly bcc?: EmailAddress | ReadonlyArray<EmailAddress> | undefined;
  /** The Message-ID of the message that this one answers. */
  readonly inReplyTo?: string | undefined;
  readonly headers?: Readonly<Record<string, string>> | undefined;
}

/** A message without the headers that are added when it is sent. */
export type MailDraft = Omit<OutgoingMail, "id" | "dateMs"> & { readonly id?: string };

/** Further options of sending. */
export interface SendingOptions {
  readonly retry?: RetryOptions | undefined;
}

/** Headers that are generated from the message's parts. */
const OWN_HEADERS =
  /^(?:from|to|cc|bcc|date|sender|return-path|mime-version|content-(?:type|transfer-encoding|disposition|id))$/i;
/** Enough for any ordinary mail; agents do not send mass mail. */
const RECIPIENTS_MAX = 100;

/** Throws a `TypeError` that names what can't be sent. */
export function composeMail(content: EmailContent, who = "sendEmail"): MailDraft {
  const { text, html, headers = {} } = content;
  if ((content as { readonly attachments?: ReadonlyArray<unknown> }).attachments?.length)
    throw new TypeError(
      `${who}: attachments can't be sent with a text: compose the whole message, and send it with EMAIL.send(new EmailMessage(from, to, raw))`,
    );
  const subject = oneLine(content.subject, "the subject", who);
  const given = { ...headers };
  const take = (name: string): string | undefined => {
    const found = Object.keys(given).find((key) => key.toLowerCase() === name);
    const value = found === undefined ? undefined : given[found];
    if (found !== undefined) delete given[found];
    return value;
  };
  checkHeaders(headers, who);
  // A custom header overrides the field of the same meaning.
  const id = take("message-id");
  const inReplyTo = take("in-reply-to") ?? content.inReplyTo;
  const references = take("references") ?? content.inReplyTo;
  const replyTo = take("reply-to") ?? content.replyTo;
  const ownSubject = take("subject");
  const lists = {
    to: readAddresses(content.to, "to", who),
    cc: readAddresses(content.cc, "cc", who),
    bcc: readAddresses(content.bcc, "bcc", who),
  };
  const count = lists.to.length + lists.cc.length + lists.bcc.length;
  if (lists.to.length === 0) throw new TypeError(`${who}: to: at least one address is needed`);
  if (count > RECIPIENTS_MAX)
    throw new TypeError(`${who}: ${count} recipients, but a message has at most ${RECIPIENTS_MAX}`);
  if (text == null && html == null) throw new TypeError(`${who}: text, html or both are needed`);
  return {
    ...(id === undefined ? {} : { id }),
    from: readAddress(content.from, "from", who),
    to: lists.to,
    ...(lists.cc.length === 0 ? {} : { cc: lists.cc }),
    ...(lists.bcc.length === 0 ? {} : { bcc: lists.bcc }),
    ...(replyTo === undefined ? {} : { replyTo: readAddress(replyTo, "replyTo", who) }),
    subject: ownSubject ?? subject,
    parts: [
      ...(text == null ? [] : [{ contentType: "text/plain", content: String(text) }]),
      ...(html == null ? [] : [{ contentType: "text/html", content: String(html) }]),
    ],
    headers: given,
    ...(inReplyTo === undefined ? {} : { inReplyTo: oneLine(inReplyTo, "inReplyTo", who) }),
    ...(references === undefined
      ? {}
      : { references: messageIds(oneLine(references, "references", who)) }),
  };
}

/** Merges headers. Later ones win; the case of their names is ignored. */
export function mergeHeaders(
  ...given: ReadonlyArray<Readonly<Record<string, string>> | undefined>
): Record<string, string> {
  const merged = new Map<string, readonly [string, string]>();
  for (const [name, value] of given.flatMap((headers) => Object.entries(headers ?? {}))) {
    merged.delete(name.toLowerCase());
    merged.set(name.toLowerCase(), [name, value]);
  }
  return Object.fromEntries(merged.values());
}

/** Throws `TypeError` for an invalid header, and for one that callers may not set. */
function checkHeaders(headers: Readonly<Record<string, string>>, who: string): void {
  for (const [name, value] of Object.entries(headers)) {
    if (!HEADER_NAME.test(name))
      throw new TypeError(`${who}: ${JSON.stringify(name)} is not a header name`);
    if (OWN_HEADERS.test(name))
      throw new TypeError(
        `${who}: the header ${name} can't be set: it is generated from the message's fields`,
      );
    oneLine(value, `the header ${name}`, who);
  }
}

/** Returns the text. Throws `TypeError` if it would break a header line. */
export function oneLine(text: string, what: string, who: string): string {
  if (typeof text !== "string") throw new TypeError(`${who}: ${what} is not a string`);
  // oxlint-disable-next-line no-control-regex
  if (/[\r\n\0]/.test(text))
    throw new TypeError(`${who}: ${what} contains a line break, which would start another header`);
  return text;
}

/** Throws `TypeError` for an invalid address. */
export function readAddress(given: EmailAddress, what: string, who: string): MailAddress {
  const parts = typeof given === "string" ? parseAddress(given) : given;
  const address = String(
    parts?.address ?? (parts as { email?: string } | null)?.email ?? "",
  ).trim();
  const name = oneLine(parts?.name ?? "", `the name in ${what}`, who);
  if (!ADDRESS.test(address) || splitAddress(address) === undefined)
    throw new TypeError(`${who}: ${what}: ${JSON.stringify(given)} is not a mail address`);
  return name === "" ? { address } : { address, name };
}

const readAddresses = (
  given: EmailAddress | ReadonlyArray<EmailAddress> | undefined,
  what: string,
  who: string,
): ReadonlyArray<MailAddress> => {
  if (given === undefined) return [];
  const list = Array.isArray(given)
    ? (given as ReadonlyArray<EmailAddress>)
    : [given as EmailAddress];
  return list.map((each) => readAddress(each, what, who));
};

/** Excludes quoted local parts, and anything that could be read as a second address. */
// oxlint-disable-next-line no-control-regex
const ADDRESS = /^[^\s@<>,;:"\\()\x00-\x1f\x7f]+@[^\s@<>,;:"\\()\x00-\x1f\x7f]+$/;

/**
 * Reads `Name <address>` and `"Name" <address>`; any other text is the address. Not by one regular
 * expression, which would take time by the cube of a run of blanks.
 */
function parseAddress(text: string): { readonly address: string; readonly name?: string } {
  const given = text.trim();
  const open = given.lastIndexOf("<");
  const address = given.slice(open + 1, -1);
  if (open === -1 || !given.endsWith(">") || address.includes(">")) return { address: text };
  const before = given.slice(0, open).trim();
  const name = /^"([^"]*)"$|^([^<"]*)$/.exec(before);
  return name === null ? { address: text } : { address, name: name[1] ?? before };
}

/** The ids of a `References` header. Of a long thread, the first and the latest. */
export function messageIds(text: string): ReadonlyArray<string> {
  const ids = text.match(/<[^<>\s]+>/g) ?? [];
  return ids.length <= REFERENCES_MAX ? ids : [ids[0]!, ...ids.slice(1 - REFERENCES_MAX)];
}

/** Enough for mail clients to keep a thread together. */
const REFERENCES_MAX = 20;
