/** Requests as the gateway passes them to a verifier, from what a sender sends. */
import type { Verdict, Verifier, WebhookRequest } from "../../core/webhook/WebhookRoute.ts";

/** A fixed now: 2026-01-02T03:04:05.678Z. */
export const NOW_MS = 1767323045678;

/** Two secrets that every provider takes, and the environment that has them under these names. */
export const SECRET = "whsec_c2VjcmV0IG9uZQ==";
export const OTHER = "whsec_c2VjcmV0IHR3bw==";
const ENV = { SECRET, OTHER };
export const BODY = '{"id":"evt_1","type":"thing.made"}';

export interface Sent {
  readonly body?: string | Uint8Array;
  /** Any case; a list is a header that was sent more than once. */
  readonly headers?: Readonly<Record<string, string | ReadonlyArray<string>>>;
  readonly env?: Readonly<Record<string, unknown>>;
  readonly params?: Readonly<Record<string, string>>;
  readonly nowMs?: number;
  readonly url?: string;
  readonly method?: string;
}

export function requestOf(sent: Sent): WebhookRequest {
  const headers: Record<string, ReadonlyArray<string>> = Object.create(null);
  for (const [name, value] of Object.entries(sent.headers ?? {}))
    headers[name.toLowerCase()] = typeof value === "string" ? [value] : value;
  return {
    method: sent.method ?? "POST",
    url: sent.url ?? "https://example.test/webhooks/x",
    params: sent.params ?? {},
    headers,
    body: typeof sent.body === "string" ? Buffer.from(sent.body) : (sent.body ?? Buffer.alloc(0)),
    nowMs: sent.nowMs ?? NOW_MS,
    env: sent.env ?? {},
  };
}

/** With `BODY` and both secrets unless `sent` says otherwise. */
export const verdictOf = (verifier: Verifier, sent: Sent): Verdict =>
  verifier.verify(requestOf({ env: ENV, body: BODY, ...sent }));

/** The reason of a rejection; throws when it was none. */
export function reasonOf(verifier: Verifier, sent: Sent): string {
  const verdict = verdictOf(verifier, sent);
  if (verdict._tag !== "Rejected") throw new Error(`not rejected: ${JSON.stringify(verdict)}`);
  return verdict.reason;
}

/** Unicode in and outside the BMP, escapes, and text that JSON would write in another way. */
export const UNICODE = `{ "id":"evt_1", "type":"a.b", "text":"žluťoučký 🐎 \\u00e9 \\ud83d\\ude00 \u2028", "n":1.0 }\n`;

/** The verdict's tag, and a rejected tamper with the same headers. */
export function check(verifier: Verifier, sent: Sent & { readonly body: string }) {
  const verdict = verifier.verify(requestOf(sent));
  const tampered = verifier.verify(requestOf({ ...sent, body: `${sent.body} ` }));
  return [verdict._tag, tampered._tag];
}
/** Of a verifier that accepts what was signed, and nothing else. */
export const PASSES = ["Verified", "Rejected"];
