/**
 * What the journal keeps of an input: its cause, readable by itself. Credentials of callers are not
 * history (`core/redaction`). The gateway removes those of a webhook before it stores it. They are
 * removed here once more, because an older gateway may have stored the webhook.
 */
import { toBase64 } from "../../schemas/base64.ts";
import { REDACTION } from "../redaction/Redaction.ts";
import type { Sequence } from "../../schemas/Address.ts";
import type { InboxHead } from "../../schemas/InboxEnvelope.ts";
import type { Cause } from "../../schemas/JournalEvent.ts";

const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

export function causeOfEnvelope(
  head: InboxHead,
  body: Uint8Array,
  seq: Sequence,
  attempt: number,
): Cause {
  // A hot path: field by field, without spreads.
  const cause: { -readonly [K in keyof Cause]: Cause[K] } = {
    // An operator's redrive has the cause of the input that it puts back.
    kind: head.kind === "redrive" ? (head.job?.kind ?? "queue") : head.kind,
    id: head.key,
  };
  // 0: it is not in the inbox.
  if (seq !== 0) cause.seq = seq;
  if (head.redrive !== undefined) cause.redrive = head.redrive;
  if (attempt !== 1) cause.attempt = attempt;
  cause.time = head.time;
  if (head.provider !== undefined) cause.provider = head.provider;
  if (head.route !== undefined) cause.route = head.route;
  if (head.verified !== undefined) cause.verified = head.verified;
  if (head.type !== undefined) cause.type = head.type;
  if (head.method !== undefined) cause.method = head.method;
  if (head.url !== undefined) cause.url = REDACTION.url(head.url);
  if (head.headers !== undefined) cause.headers = REDACTION.record(head.headers);
  if (head.entity !== undefined) cause.entity = head.entity;
  if (head.delivery !== undefined) cause.delivery = head.delivery;
  if (head.traceparent !== undefined) cause.traceparent = head.traceparent;
  return Object.assign(cause, storedBody(body));
}

/** The cause of a plain HTTP request: method and URL, without headers and body. */
export const causeOfRequest = (id: string, method: string, url: string, timeMs: number): Cause => ({
  kind: "request",
  id,
  time: timeMs,
  method,
  url: REDACTION.url(url),
});

export const causeOfConnect = (id: string, url: string, timeMs: number): Cause => ({
  kind: "connect",
  id,
  url: REDACTION.url(url),
  time: timeMs,
});

/** Text where it is UTF-8, else base64; nothing for an empty body. */
export function storedBody(body: Uint8Array): Pick<Cause, "body" | "bodyBase64"> {
  if (body.length === 0) return {};
  try {
    return { body: decoder.decode(body) };
  } catch {
    return { bodyBase64: toBase64(body) };
  }
}
