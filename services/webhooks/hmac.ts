/**
 * Verifiers for senders without a row in `providers`: `hmac`, whose options describe a row, and
 * `unsigned`, which verifies nothing.
 */
import { InvalidWebhook, type Verifier } from "../../core/webhook/WebhookRoute.ts";
import { parseTemplate } from "./verifier/signedBytes.ts";
import {
  DEADLINE_MS_DEFAULT,
  TOLERANCE_SECONDS_DEFAULT,
  type DetailFields,
  type SignatureScheme,
} from "./verifier/SignatureScheme.ts";
import type { SignatureEncoding } from "./verifier/Signatures.ts";
import type { TimestampUnit } from "./verifier/timestamp.ts";
import { valuesOf, verified, type DetailHeaders } from "./verifier/verified.ts";
import { verifierOf, type TimestampedOptions, type UrlOptions } from "./verifier/verifierOf.ts";

/** The place of an event's id or type: a header, or a dotted path in the body. */
export type DetailSource = { readonly header: string } | { readonly field: string };

/** How a sender signs, for `hmac` and `sign.hmac`. */
export interface HmacScheme {
  /** Name in dedup keys and logs: 1 to 64 letters, digits, `-` and `_`. Default `hmac`. */
  readonly provider?: string;
  /** Hash of the HMAC. Default `sha256`. */
  readonly algorithm?: "sha256" | "sha1" | "sha512";
  /** The signature's header. Default `X-Hub-Signature-256`. */
  readonly header?: string;
  /**
   * Text before the signature; "" for none. Default: the algorithm's name and `=`, like `sha256=`.
   */
  readonly prefix?: string;
  /** Separates the signatures of a header that lists several, like `,` or a space. Default: one. */
  readonly separator?: string;
  /** Lower-case `hex`, or `base64` with padding. Default `hex`. */
  readonly encoding?: SignatureEncoding;
  /**
   * What is signed: text with `{body}`, `{timestamp}`, `{id}`, `{url}` and `{method}`, like
   * `{timestamp}.{body}`. Default `{body}`.
   */
  readonly template?: string;
  /**
   * The signed time: a header, or an item of the signature's list (`{ item: "t=" }`). The template
   * must contain it. `unit`: seconds unless given. Default: none is signed.
   */
  readonly timestamp?: ({ readonly header: string } | { readonly item: string }) & {
    readonly unit?: TimestampUnit;
  };
  /**
   * The event's id, for deduplication. Must be a header when the template has `{id}`. Default:
   * none.
   */
  readonly id?: DetailSource;
  /** The event's type. Default: the header `X-Event-Type`. */
  readonly event?: DetailSource;
  /**
   * `plain`: the key is the secret's UTF-8. `whsec`: the base64 after `whsec_`. Default `plain`.
   */
  readonly secretFormat?: "plain" | "whsec";
}

/** Options of `hmac`. `toleranceSeconds`: 300 by default. */
export interface HmacOptions extends TimestampedOptions, UrlOptions, HmacScheme {}

/**
 * Any HMAC over a template. With only a secret it is the scheme of `interface.md` §5:
 * `X-Hub-Signature-256: sha256=<lower-case hex of the body's HMAC-SHA-256>`. Deadline 5 s. Throws
 * `InvalidWebhook` for options that contradict each other.
 */
export const hmac = (options: HmacOptions): Verifier => verifierOf(hmacScheme(options), options);

/**
 * The row that `hmac`'s options describe. Throws `InvalidWebhook` when they contradict each other.
 */
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

/** Options of `unsigned`. */
export interface UnsignedOptions {
  /** Name in dedup keys and logs: 1 to 64 letters, digits, `-` and `_`. Default `unsigned`. */
  readonly provider?: string;
  /** The event's id, for deduplication. Default: none. */
  readonly id?: DetailSource;
  /** The event's type. Default: the header `X-Event-Type`. */
  readonly event?: DetailSource;
  /** Whether a body that was seen before under another id is refused too. Default false. */
  readonly replayGuard?: boolean;
}

/**
 * Lets every request through. For senders that cannot sign, behind a network or a proxy that keeps
 * others out. The entity of such a route needs `trust: true`, one in the body too. Deadline 5 s.
 * Throws `InvalidWebhook` for a bad `provider`.
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
        ? { _tag: "Rejected", reason: `header ${headers.id} was sent more than once` }
        : verified(fields, request, { headers, replayGuard }),
  };
}

const wrong = (why: string) => new InvalidWebhook({ message: `hmac(…): ${why}` });

function checkTemplate(template: string, options: HmacScheme): void {
  const { timestamp, id } = options;
  const parts = parseTemplate(template);
  if (parts.includes("timestamp") && timestamp === undefined)
    throw wrong(
      "the template contains {timestamp}, so its place is needed: timestamp: { header: … }",
    );
  if (timestamp !== undefined && !parts.includes("timestamp"))
    throw wrong("a timestamp must be signed: put {timestamp} in the template");
  if (timestamp !== undefined && "item" in timestamp && options.separator === undefined)
    throw wrong(`a timestamp in the signature's header needs its separator, like ","`);
  if (parts.includes("id") && !(id !== undefined && "header" in id))
    throw wrong("the template contains {id}, so its header is needed: id: { header: … }");
  for (const own of ["form", "crc32", "webhook"] as const)
    if (parts.includes(own)) throw wrong(`{${own}} is only available to built-in providers`);
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

/**
 * First parts of the other keys in a `DoneSet`: inputs that died (`DEAD_PREFIX`), inputs without a
 * provider's id, and inputs of other kinds.
 */
const TAKEN: ReadonlySet<string> = new Set([
  "dead", "gen", "mail", "queue", "redelivery", "redrive", "workflow",
]); // prettier-ignore

/** Checks a name that becomes part of dedup keys, where a colon or a space would separate. */
function providerName(name: string): string {
  if (!/^[A-Za-z0-9_-]{1,64}$/.test(name))
    throw new InvalidWebhook({
      message: `provider "${name}": use 1 to 64 letters, digits, "-" and "_"`,
    });
  if (TAKEN.has(name))
    throw new InvalidWebhook({
      message: `provider "${name}": inputs of another kind have that name in their dedup keys: choose another one`,
    });
  return name;
}
