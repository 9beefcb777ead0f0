/**
 * What the journal keeps of an input: its cause, readable by itself. Credentials of callers are not
 * history (`core/redaction`). A webhook's are gone before it is stored; here they are looked for
 * once more, since an older gateway may have stored it.
 */
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
  return {
    // An operator's redrive has the cause of the input that it puts back.
    kind: head.kind === "redrive" ? (head.job?.kind ?? "queue") : head.kind,
    id: head.key,
    // 0: it is not in the inbox.
    ...(seq === 0 ? {} : { seq }),
    ...(head.redrive === undefined ? {} : { redrive: head.redrive }),
    ...(attempt === 1 ? {} : { attempt }),
    time: head.time,
    ...(head.provider === undefined ? {} : { provider: head.provider }),
    ...(head.route === undefined ? {} : { route: head.route }),
    ...(head.verified === undefined ? {} : { verified: head.verified }),
    ...(head.type === undefined ? {} : { type: head.type }),
    ...(head.method === undefined ? {} : { method: head.method }),
    ...(head.url === undefined ? {} : { url: REDACTION.url(head.url) }),
    ...(head.headers === undefined ? {} : { headers: REDACTION.record(head.headers) }),
    ...(head.entity === undefined ? {} : { entity: head.entity }),
    ...(head.delivery === undefined ? {} : { delivery: head.delivery }),
    ...(head.traceparent === undefined ? {} : { traceparent: head.traceparent }),
    ...storedBody(body),
  };
}

/**
 * The cause of a plain HTTP request: its line; neither headers nor body, which are not durable
 * inputs.
 */
export const causeOfRequest = (id: string, method: string, url: string, timeMs: number): Cause => ({
  kind: "request",
  id,
  time: timeMs,
  method,
  url: REDACTION.url(url),
});

/** The cause of a socket that connects. */
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
    let binary = "";
    for (const byte of body) binary += String.fromCharCode(byte);
    return { bodyBase64: btoa(binary) };
  }
}
