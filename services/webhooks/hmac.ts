/**
 * Verifiers for senders that have no row of their own: `hmac`, whose options are a row of the table,
 * and `unsigned`, which checks nothing and says so.
 */
import { InvalidWebhook, type Verifier } from "../../core/webhook/WebhookRoute.ts";
import { DEADLINE_MS_DEFAULT, TOLERANCE_SECONDS_DEFAULT } from "./providers.ts";
import { parseTemplate } from "./signedBytes.ts";
import type { DetailFields, SignatureScheme } from "./SignatureScheme.ts";
import type { SignatureEncoding } from "./Signatures.ts";
import type { TimestampUnit } from "./timestamp.ts";
import { valuesOf, verified, type DetailHeaders } from "./verified.ts";
import { verifierOf, type TimestampedOptions, type UrlOptions } from "./verifierOf.ts";

/** Where an unsigned or signed detail is: a header, or a dotted path in the body. */
export type DetailSource = { readonly header: string } | { readonly field: string };

export interface HmacScheme {
  /** Part of dedup keys and logs; `hmac` unless said otherwise. */
  readonly provider?: string;
  readonly algorithm?: "sha256" | "sha1" | "sha512";
  /** The signature's header; `X-Hub-Signature-256` unless said otherwise. */
  readonly header?: string;
  /** Before the signature; `sha256=` (the algorithm's name) unless said otherwise. Write "" for none. */
  readonly prefix?: string;
  /** Splits a header that lists several signatures, like `,` or a space. */
  readonly separator?: string;
  readonly encoding?: SignatureEncoding;
  /** What is signed, e.g. `{timestamp}.{body}`; `{body}` unless said otherwise. Also `{id}`, `{url}`, `{method}`. */
  readonly template?: string;
  /** The signed time: a header, or an item of the signature's list (`{ item: "t=" }`). Must be in the template. */
  readonly timestamp?: ({ readonly header: string } | { readonly item: string }) & {
    readonly unit?: TimestampUnit;
  };
  /** The event's id, for deduplication; none unless said otherwise. A header when the template has `{id}`. */
  readonly id?: DetailSource;
  /** The event's type; the header `X-Event-Type` unless said otherwise. */
  readonly event?: DetailSource;
  /** `whsec`: the key is the base64 after `whsec_`. */
  readonly secretFormat?: "plain" | "whsec";
}

export interface HmacOptions extends TimestampedOptions, UrlOptions, HmacScheme {}

/**
 * Any HMAC over a template. With only a secret it is the scheme of `interface.md` §5:
 * `X-Hub-Signature-256: sha256=<lower-case hex of the body's HMAC-SHA-256>`.
 */
export const hmac = (options: HmacOptions): Verifier => verifierOf(hmacScheme(options), options);

/** The row that `hmac`'s options describe. Throws `InvalidWebhook` when they contradict each other. */
export function hmacScheme(options: HmacScheme): SignatureScheme {
  const { algorithm = "sha256", template = "{body}", timestamp, separator } = options;
  const details = detailsOf(options);
  checkTemplate(template, options);
  return {
    ...details.fields,
    provider: providerName(options.provider ?? "hmac"),
    deadlineMs: DEADLINE_MS_DEFAULT,
    algorithm: `hmac-${algorithm}`,
    encoding: options.encoding ?? "hex",
    headers: [
      {
        ...details.headers,
        signature: (options.header ?? "x-hub-signature-256").toLowerCase(),
        ...(timestamp !== undefined &&
          "header" in timestamp && { timestamp: timestamp.header.toLowerCase() }),
      },
    ],
    ...(separator !== undefined && { separator }),
    prefix: options.prefix ?? `${algorithm}=`,
    template,
    ...(timestamp !== undefined && {
      timestamp: {
        ...("item" in timestamp && { item: timestamp.item }),
        unit: timestamp.unit ?? "s",
        toleranceSeconds: TOLERANCE_SECONDS_DEFAULT,
      },
    }),
    secretFormat: options.secretFormat ?? "plain",
  };
}

export interface UnsignedOptions {
  readonly provider?: string;
  readonly id?: DetailSource;
  readonly event?: DetailSource;
  /** Also refuse a body that was seen before under another id. */
  readonly replayGuard?: boolean;
}

/**
 * Lets every request through: for senders that cannot sign, behind a network or a proxy that keeps
 * others out. Each entity of such a route needs `trust: true`, the body's too.
 */
export function unsigned(options: UnsignedOptions = {}): Verifier {
  const { fields, headers } = detailsOf(options);
  const { replayGuard = false } = options;
  return {
    provider: providerName(options.provider ?? "unsigned"),
    deadlineMs: DEADLINE_MS_DEFAULT,
    signs: [],
    unsigned: true,
    verify: (request) =>
      headers.id !== undefined && valuesOf(request, headers.id).length > 1
        ? { _tag: "Rejected", reason: `header ${headers.id} came more than once` }
        : verified(fields, request, { headers, replayGuard }),
  };
}

const wrong = (why: string) => new InvalidWebhook({ message: `hmac(…): ${why}` });

function checkTemplate(template: string, options: HmacScheme): void {
  const { timestamp, id } = options;
  const parts = parseTemplate(template);
  if (parts.includes("timestamp") && timestamp === undefined)
    throw wrong("the template has {timestamp}: say where it is, timestamp: { header: … }");
  if (timestamp !== undefined && !parts.includes("timestamp"))
    throw wrong("a timestamp that is not signed proves nothing: put {timestamp} in the template");
  if (timestamp !== undefined && "item" in timestamp && options.separator === undefined)
    throw wrong(`a timestamp in the signature's header needs its separator, like ","`);
  if (parts.includes("id") && !(id !== undefined && "header" in id))
    throw wrong("the template has {id}: say which header it is, id: { header: … }");
  for (const own of ["form", "crc32", "webhook"] as const)
    if (parts.includes(own)) throw wrong(`{${own}} is for providers with a row of their own`);
  if (!parts.includes("body") && !parts.includes("url"))
    throw wrong("the template signs neither {body} nor {url}");
}

function detailsOf(options: Pick<UnsignedOptions, "id" | "event">): {
  readonly fields: DetailFields;
  readonly headers: DetailHeaders;
} {
  const { id, event = { header: "x-event-type" } } = options;
  return {
    fields: {
      ...(id !== undefined && "field" in id && { idFields: [id.field] }),
      ...("field" in event && { eventFields: [event.field] }),
    },
    headers: {
      ...(id !== undefined && "header" in id && { id: id.header.toLowerCase() }),
      ...("header" in event && { event: event.header.toLowerCase() }),
    },
  };
}

/** It is part of dedup keys, where a colon or a space could be mistaken for a separator. */
function providerName(name: string): string {
  if (/^[A-Za-z0-9_-]{1,64}$/.test(name)) return name;
  throw new InvalidWebhook({
    message: `provider "${name}": use 1 to 64 letters, digits, "-" and "_"`,
  });
}
