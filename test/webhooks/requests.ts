/** Requests as the gateway would give them to a verifier, from what a sender sends. */
import type { WebhookRequest } from "../../core/webhook/WebhookRoute.ts";

/** A fixed now: 2026-01-02T03:04:05.678Z. */
export const NOW_MS = 1767323045678;

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
