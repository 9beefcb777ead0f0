/**
 * An outgoing webhook as it is kept until it is sent, and its headers (`interface.md` §4.2). Pure.
 *
 * 1. Its secret is never stored where one of the agent's environment variables has it: then only
 *    that variable's name is, and each attempt signs anew. Of any other secret the signatures made
 *    at the call are kept.
 * 2. `Idempotency-Key` is the same for every attempt, and for the same call of a turn that runs
 *    again.
 */
import { checkOptions } from "../errors/checkOptions.ts";
import { jsonText } from "../journal/jsonText.ts";
import { toBase64 } from "../../schemas/base64.ts";
import { toHex } from "../../schemas/toHex.ts";
import * as Data from "effect/Data";
import type { RetryOptions } from "../retry/RetryOptions.ts";
import { REDACTION } from "../redaction/Redaction.ts";
import type { OutgoingShape } from "./Outgoing.ts";

/** Options of `sendWebhook`. */
export interface SendWebhookOptions {
  /**
   * Signs the body: `X-Signature: sha256=<hex of its HMAC-SHA-256>`. A text that is not empty;
   * without this option the webhook is not signed.
   */
  readonly secret?: string;
  /** Further headers. The runtime's own can't be replaced. */
  readonly headers?: Readonly<Record<string, string>>;
  /** The retry policy. Default: that of the class. */
  readonly retry?: RetryOptions;
  /** Also the headers of standardwebhooks.com; `secret` is then `whsec_` and base64. */
  readonly standardWebhooks?: boolean;
  /** Send to private and loopback addresses too. Default: the class's `allowPrivateHosts`. */
  readonly allowPrivate?: boolean;
}

const OPTIONS = new Set(["secret", "headers", "retry", "standardWebhooks", "allowPrivate"]);

export interface OutgoingWebhook {
  readonly id: string;
  readonly url: string;
  /** JSON text: the very bytes that are signed and sent. */
  readonly body: string;
  /** As the caller gave them; lower-case names. */
  readonly headers: Readonly<Record<string, string>>;
  readonly allowPrivate: boolean;
  readonly standardWebhooks: boolean;
  /** Name of the variable that holds the secret. */
  readonly secretName?: string;
  /** Signature headers made at the call. */
  readonly signed?: Readonly<Record<string, string>>;
}

/** An attempt failed: another follows if the policy has one. `status` if there was an answer. */
export class OutgoingWebhookFailed extends Data.TaggedError("OutgoingWebhookFailed")<{
  readonly message: string;
  readonly status?: number;
}> {}

/** It must not be sent to its address, or can't be signed: another attempt would not help. */
export class OutgoingWebhookRefused extends Data.TaggedError("OutgoingWebhookRefused")<{
  readonly message: string;
}> {}

/** Headers that the runtime or HTTP itself sets. */
const OWN_HEADERS =
  /^(?:content-length|content-type|host|connection|transfer-encoding|upgrade|idempotency-key|x-signature|webhook-(?:id|timestamp|signature))$/;

interface WebhookCall {
  readonly id: string;
  readonly url: string | URL;
  readonly body: unknown;
  readonly options: SendWebhookOptions;
  readonly env: Readonly<Record<string, unknown>>;
  readonly allowPrivate: boolean;
  readonly nowMs: number;
}

/** What a call asks for. Throws `TypeError` for an unusable URL, body, header or secret. */
export function makeWebhook(call: WebhookCall, outgoing: OutgoingShape): OutgoingWebhook {
  const { id, options, env, allowPrivate } = call;
  checkOptions("sendWebhook", options, OPTIONS);
  const url = parseUrl(call.url);
  const refusal = allowPrivate ? undefined : outgoing.refusal(url);
  if (refusal !== undefined) throw new OutgoingWebhookRefused({ message: refusal });
  const body = jsonText(call.body, "sendWebhook: the body");
  if (body === undefined)
    throw new TypeError(`sendWebhook: the body must be JSON, not ${typeof call.body}`);
  const headers: Record<string, string> = {};
  for (const [name, value] of new Headers(options.headers)) {
    if (OWN_HEADERS.test(name))
      throw new TypeError(`sendWebhook: the header ${name} is set by the runtime`);
    headers[name] = value;
  }
  const standardWebhooks = options.standardWebhooks ?? false;
  const secret = secretOf(options);
  if (secret === undefined && standardWebhooks)
    throw new TypeError("sendWebhook: standardWebhooks needs a secret");
  const webhook = { id, url: url.href, body, headers, allowPrivate, standardWebhooks };
  if (secret === undefined) return webhook;
  const signed = signatures(webhook, secret, call.nowMs, outgoing);
  const secretName = Object.keys(env).find((name) => env[name] === secret);
  return secretName === undefined ? { ...webhook, signed } : { ...webhook, secretName };
}

/** Undefined: the webhook is not signed, which is never what a missing variable means. */
function secretOf(options: SendWebhookOptions): string | undefined {
  if (!("secret" in options)) return undefined;
  const { secret } = options as { readonly secret?: unknown };
  if (typeof secret === "string" && secret !== "") return secret;
  const is = secret === "" ? "empty" : secret === null ? "null" : typeof secret;
  throw new TypeError(
    `sendWebhook: the secret is ${is}; is its variable set? Leave it out to send unsigned`,
  );
}

/** The headers of one attempt. Throws `OutgoingWebhookRefused` when the secret is gone. */
export function headersOf(
  webhook: OutgoingWebhook,
  env: Readonly<Record<string, unknown>>,
  nowMs: number,
  outgoing: OutgoingShape,
): Readonly<Record<string, string>> {
  const { secretName } = webhook;
  const secret = secretName === undefined ? undefined : env[secretName];
  if (secretName !== undefined && typeof secret !== "string")
    throw new OutgoingWebhookRefused({
      message: `The webhook can't be signed: the variable ${secretName} is no longer set`,
    });
  return {
    ...webhook.headers,
    "content-type": "application/json",
    "idempotency-key": webhook.id,
    ...(typeof secret === "string" ? signatures(webhook, secret, nowMs, outgoing) : webhook.signed),
  };
}

const encoder = new TextEncoder();
const MS_PER_SECOND = 1000;

function signatures(
  { id, body, standardWebhooks }: Pick<OutgoingWebhook, "id" | "body" | "standardWebhooks">,
  secret: string,
  nowMs: number,
  { hmacSha256 }: OutgoingShape,
): Readonly<Record<string, string>> {
  const plain = hmacSha256(encoder.encode(secret), encoder.encode(body));
  const own = { "x-signature": `sha256=${toHex(plain)}` };
  if (!standardWebhooks) return own;
  const timestamp = String(Math.floor(nowMs / MS_PER_SECOND));
  const content = encoder.encode(`${id}.${timestamp}.${body}`);
  return {
    ...own,
    "webhook-id": id,
    "webhook-timestamp": timestamp,
    "webhook-signature": `v1,${toBase64(hmacSha256(standardKey(secret), content))}`,
  };
}

function standardKey(secret: string): Uint8Array {
  try {
    if (!secret.startsWith("whsec_")) throw new TypeError("no whsec_");
    return Uint8Array.from(atob(secret.slice("whsec_".length)), (c) => c.charCodeAt(0));
  } catch {
    throw new TypeError(
      "sendWebhook: a secret of Standard Webhooks must be whsec_ followed by base64",
    );
  }
}

function parseUrl(given: string | URL): URL {
  let url: URL | undefined;
  try {
    url = new URL(given);
  } catch {
    // The same refusal as for another protocol, below.
  }
  if (url?.protocol !== "https:" && url?.protocol !== "http:")
    throw new TypeError(`sendWebhook: ${REDACTION.url(String(given))} is not an http or https URL`);
  return url!;
}
