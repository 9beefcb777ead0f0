/**
 * Messages that answer another: an agent's reply, a raw answer, a forwarded message, and the notice
 * of a rejection (`protocol.md` §8). Pure. Replies and notices are marked as automatic, so that no
 * machine answers them.
 */
import { toBase64 } from "../../schemas/base64.ts";
import { rawBytes, ReceivedEmail, type AgentEmail, type RawEmail } from "./AgentEmail.ts";
import {
  composeMail,
  mergeHeaders,
  messageIds,
  oneLine,
  readAddress,
  type MailDraft,
  type SendingOptions,
} from "./composeMail.ts";
import { headerText } from "./mailHead.ts";
import { whyNoReply } from "./autoReply.ts";

/** What `replyToEmail` sends. */
export interface ReplyOptions extends SendingOptions {
  /** The sender's display name. */
  readonly fromName: string;
  /** Default: `Re: ` and the original's subject. */
  readonly subject?: string;
  /** The message's text. */
  readonly body: string;
  /** Default `text/plain`. */
  readonly contentType?: string;
  readonly headers?: Readonly<Record<string, string>>;
  /** Signs the agent's headers. Null leaves them unsigned, even in answer to a signed reply. */
  readonly secret?: string | null | undefined;
}

const AUTO_REPLIED = { "Auto-Submitted": "auto-replied" } as const;

/** `agentHeaders` name the agent; the caller's own headers override them. Throws `TypeError`. */
export function composeReply(
  email: AgentEmail,
  options: ReplyOptions,
  agentHeaders: Readonly<Record<string, string>>,
): MailDraft {
  const who = "replyToEmail";
  const { fromName, body, contentType = "text/plain" } = options;
  if (typeof body !== "string") throw new TypeError(`${who}: the body must be text`);
  const original = email.headers.get("message-id");
  const draft = composeMail(
    {
      from: { address: email.to, name: oneLine(fromName, "fromName", who) },
      to: email.from,
      // As in the reference, an empty subject is none, and a missing one becomes the text `null`.
      subject: options.subject || `Re: ${headerText(email.headers, "subject")}`,
      text: body,
      inReplyTo: original ?? undefined,
      headers: mergeHeaders(AUTO_REPLIED, agentHeaders, options.headers),
    },
    who,
  );
  const thread = messageIds(`${email.headers.get("references") ?? ""} ${original ?? ""}`);
  const ownThread = Object.keys(options.headers ?? {}).some((n) => /^references$/i.test(n));
  return {
    ...draft,
    ...(thread.length === 0 || ownThread ? {} : { references: thread }),
    parts: [{ contentType: oneLine(contentType, "contentType", who), content: body }],
  };
}

/** A raw answer; the envelope decides who receives it. Throws `TypeError`. */
export async function composeRaw({ from, to, raw }: RawEmail, who: string): Promise<MailDraft> {
  const sender = readAddress(from, "from", who);
  const recipient = readAddress(to, "to", who);
  return whole(sender.address, recipient.address, await rawBytes(raw));
}

/**
 * The received message with added `X-` headers. Its bounces go to the address that the message was
 * sent to; a bounce has no sender, forwarded too (RFC 5321, section 6.1), so that nothing bounces
 * for ever.
 */
export async function composeForward(
  email: AgentEmail,
  recipient: string,
  headers: Headers | undefined,
): Promise<MailDraft> {
  const who = "forward";
  const { address } = readAddress(recipient, "the recipient", who);
  const added = [...new Headers(headers)].map(([name, value]) => {
    if (!/^x-/i.test(name))
      throw new TypeError(`${who}: only X- headers may be added, not ${name}`);
    return `${name}: ${oneLine(value, `the header ${name}`, who)}\r\n`;
  });
  const head = new TextEncoder().encode(added.join(""));
  const raw = await ReceivedEmail.rawOf(email);
  const all = new Uint8Array(head.length + raw.length);
  all.set(head);
  all.set(raw, head.length);
  return whole(email.to, address, all, email.from === "" ? "" : email.to);
}

/**
 * Notifies the sender that the message was rejected after it had been accepted. Returns undefined
 * for a bounce, a list and automatic mail, which get no answer. Its own envelope sender is empty,
 * so that it never bounces.
 */
export function composeRejection(email: AgentEmail, reason: string): MailDraft | undefined {
  if (whyNoReply(email) !== undefined) return undefined;
  const original = email.headers.get("message-id") ?? undefined;
  const text = `Your message to ${email.to} was not accepted:\n\n  ${reason}\n`;
  const draft = composeMail(
    {
      from: { address: email.to, name: "Mail Delivery" },
      to: email.from,
      subject: "Undelivered mail",
      text,
      inReplyTo: original,
      headers: AUTO_REPLIED,
    },
    "setReject",
  );
  return { ...draft, envelope: { from: "", to: [email.from] } };
}

/** `sender`: the envelope's, empty where nothing is to bounce. */
function whole(from: string, to: string, raw: Uint8Array, sender = from): MailDraft {
  return {
    from: { address: from },
    to: [{ address: to }],
    subject: "",
    parts: [],
    headers: {},
    envelope: { from: sender, to: [to] },
    raw: toBase64(raw),
  };
}
