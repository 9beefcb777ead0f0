/**
 * The one verifier: runs a provider's row (`SignatureScheme`) on a request. Fed by the gateway with
 * raw bytes; what it lets through goes to the route's entity source.
 *
 * 1. Nothing is parsed before the signature over the raw bytes was found right.
 * 2. Every header that takes part is there once or not at all: of two, a proxy and this code could
 *    each believe another.
 * 3. All live secrets are tried against all signatures sent, each comparison in constant time.
 * 4. A missing secret is the operator's fault and says so; it never lets a request through.
 * 5. Never throws, whatever the request.
 */
import { createHash } from "node:crypto";
import {
  InvalidWebhook,
  type Verdict,
  type Verifier,
  type WebhookRequest,
} from "../../core/webhook/WebhookRoute.ts";
import { parsedBody, valueAt } from "./ParsedBody.ts";
import { Secrets, type Secret } from "./Secrets.ts";
import {
  parseTemplate,
  sameSignature,
  signatureOf,
  type SignatureHeaders,
  type SignatureScheme,
} from "./SignatureScheme.ts";
import { refuseTimestamp } from "./timestamp.ts";

export interface VerifierOptions {
  /**
   * Name of the environment variable that holds the provider's secret, like `"GITHUB_WEBHOOK_SECRET"`;
   * or `{ value }` with the secret itself; or a list of these, all live, for a rotation.
   */
  readonly secret: Secret | ReadonlyArray<Secret>;
  /** Also refuse a body that was seen before under another id: for providers whose id is not signed. */
  readonly replayGuard?: boolean;
}

export interface TimestampedOptions extends VerifierOptions {
  /** How far the signed time may be from now, either way; 300 unless said otherwise. */
  readonly toleranceSeconds?: number;
}

/** As long as ids are remembered: a longer window would let an old request in twice. */
const TOLERANCE_SECONDS_MAX = 7 * 24 * 3600;
/** Providers send one signature per live secret of theirs; more are noise that costs a comparison each. */
const SIGNATURES_MAX = 16;
/** Ids past this, or not plain ASCII, are replaced by their hash: they become parts of keys and headers. */
const PLAIN_ID = /^[\x21-\x7e]{1,256}$/;
const PLAIN_EVENT_TYPE = /^[\x20-\x7e]{1,256}$/;

const rejected = (reason: string): Verdict => ({ _tag: "Rejected", reason });
export const sha256 = (data: Uint8Array | string): string =>
  createHash("sha256").update(data).digest("hex");

/** Throws `InvalidWebhook` for options that can't work. The verifier keeps no state but its keys. */
export function verifierOf(scheme: SignatureScheme, options: TimestampedOptions): Verifier {
  const secrets = new Secrets(scheme.provider, options.secret, scheme.secretFormat);
  const template = parseTemplate(scheme.template);
  const toleranceSeconds = checkTolerance(scheme, options.toleranceSeconds);

  function verify(request: WebhookRequest): Verdict {
    const found = secrets.keys(request.env);
    if (found._tag === "Misconfigured") return found; // 4
    const headers = scheme.headers.find((set) =>
      valuesOf(request, set.signature).some((value) => value !== ""),
    );
    if (headers === undefined) return rejected(`no ${scheme.headers[0]!.signature} header`);
    const repeated = repeatedHeader(request, headers);
    if (repeated !== undefined) return rejected(`header ${repeated} came more than once`); // 2
    const id = firstValue(request, headers.id) ?? "";
    if (id === "" && template.includes("id")) return rejected(`no ${headers.id} header`);

    const sent = signaturesIn(scheme, valuesOf(request, headers.signature)[0]!);
    if (typeof sent === "string") return rejected(sent);
    let timestamp = "";
    if (scheme.timestamp !== undefined) {
      timestamp = sent.timestamp ?? firstValue(request, headers.timestamp) ?? "";
      if (timestamp === "") return rejected("no timestamp");
      const why = refuseTimestamp(timestamp, scheme.timestamp.unit, {
        nowMs: request.nowMs,
        toleranceSeconds,
      });
      if (why !== undefined) return rejected(why);
    }

    const { body, url, method } = request;
    let matches = false;
    for (const key of found.keys) {
      const expected = signatureOf(scheme, template, key, { body, timestamp, id, url, method });
      for (const given of sent.signatures) if (sameSignature(expected, given)) matches = true; // 3
    }
    if (!matches)
      return rejected(`no signature matches${found.hint === undefined ? "" : ` (${found.hint})`}`);
    const answer = scheme.handshake?.(request); // 1: from here on the body may be read
    if (answer !== undefined) return { _tag: "Handshake", answer };
    return verified(scheme, request, {
      headers,
      replayGuard: options.replayGuard ?? false,
    });
  }

  return {
    provider: scheme.provider,
    deadlineMs: scheme.deadlineMs,
    signs: [
      ...(template.includes("body") ? (["body"] as const) : []),
      ...(template.includes("url") ? (["url"] as const) : []),
    ],
    secretNames: secrets.names,
    verify,
  };
}

/** The verdict on a request that was let through, with what the row says about ids and types. */
export function verified(
  scheme: DetailFields,
  request: WebhookRequest,
  options: { readonly headers: DetailHeaders; readonly replayGuard: boolean },
): Verdict {
  const { headers } = options;
  const id = firstValue(request, headers.id) ?? textAt(request, scheme.idField);
  let eventType = firstValue(request, headers.event);
  for (const field of scheme.eventFields ?? []) eventType ??= textAt(request, field);
  const retries = firstValue(request, scheme.retryHeader);
  return {
    _tag: "Verified",
    ...(id !== undefined && { dedupId: PLAIN_ID.test(id) ? id : `sha256:${sha256(id)}` }),
    ...(options.replayGuard && { replayId: sha256(request.body) }),
    ...(eventType !== undefined && PLAIN_EVENT_TYPE.test(eventType) && { eventType }),
    ...(retries !== undefined && /^\d{1,3}$/.test(retries) && { attempt: Number(retries) + 1 }),
  };
}

const NONE: ReadonlyArray<string> = [];

export type DetailHeaders = Pick<SignatureHeaders, "id" | "event">;
export type DetailFields = Pick<SignatureScheme, "idField" | "eventFields" | "retryHeader">;

/** A header's values as they came; none when it was not sent. */
export function valuesOf(request: WebhookRequest, name: string): ReadonlyArray<string> {
  return Object.hasOwn(request.headers, name) ? (request.headers[name] ?? NONE) : NONE;
}

/** Undefined when the row names no such header, or it was not sent, or is empty. */
function firstValue(request: WebhookRequest, name: string | undefined): string | undefined {
  return name === undefined ? undefined : valuesOf(request, name)[0] || undefined;
}

function textAt(request: WebhookRequest, field: string | undefined): string | undefined {
  if (field === undefined) return undefined;
  const value = valueAt(parsedBody(request), field);
  if (typeof value === "number") return String(value);
  return typeof value === "string" && value !== "" ? value : undefined;
}

function repeatedHeader(request: WebhookRequest, set: SignatureHeaders): string | undefined {
  for (const name of [set.signature, set.timestamp, set.id])
    if (name !== undefined && valuesOf(request, name).length > 1) return name;
  return undefined;
}

interface Sent {
  readonly signatures: ReadonlyArray<string>;
  /** When the row has the time in the list. */
  readonly timestamp?: string;
}

/** The signatures in the header, or why there are none. */
function signaturesIn(scheme: SignatureScheme, header: string): Sent | string {
  const { prefix, separator } = scheme;
  const items = separator === undefined ? [header] : header.split(separator);
  if (separator !== undefined && items.some(isJoint)) return "the signature header is not one list"; // 2
  const after = (start: string) =>
    items.filter((item) => item.startsWith(start)).map((item) => item.slice(start.length));
  const signatures = after(prefix);
  if (signatures.length === 0) return `no signature that begins with "${prefix}"`;
  if (signatures.length > SIGNATURES_MAX) return `${signatures.length} signatures`;
  const timePrefix = scheme.timestamp?.item;
  if (timePrefix === undefined) return { signatures };
  const times = after(timePrefix);
  return times.length === 1
    ? { signatures, timestamp: times[0]! }
    : `${times.length} timestamps in the signature header`; // 2
}

/** What is between two headers that a proxy joined with ", "; no provider's own list has it. */
const isJoint = (item: string): boolean =>
  item === "" || item !== item.trim() || item.endsWith(",");

function checkTolerance(scheme: SignatureScheme, given: number | undefined): number {
  const usual = scheme.timestamp?.toleranceSeconds;
  if (given === undefined) return usual ?? 0;
  if (usual === undefined)
    throw new InvalidWebhook({
      message: `${scheme.provider}({ toleranceSeconds }): it signs no timestamp, so there is nothing to measure; for replays see replayGuard`,
    });
  if (!(given >= 1 && given <= TOLERANCE_SECONDS_MAX))
    throw new InvalidWebhook({
      message: `${scheme.provider}({ toleranceSeconds: ${given} }): give 1 to ${TOLERANCE_SECONDS_MAX} seconds`,
    });
  return given;
}
