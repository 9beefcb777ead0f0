/**
 * The options of `hmac` and `unsigned`, and their checks, which throw `InvalidWebhook` before a row
 * is made of them: an option that is misspelt or of another type would otherwise fail at each
 * request, or verify something else. Pure.
 */
import { optionsFault } from "../../core/errors/checkOptions.ts";
import { shownValue } from "../../core/errors/shownValue.ts";
import { InvalidWebhook } from "../../core/webhook/WebhookRoute.ts";
import { isHeaderName } from "./entities.ts";
import { parseTemplate } from "./verifier/signedBytes.ts";
import type { SignatureEncoding } from "./verifier/Signatures.ts";
import type { TimestampUnit } from "./verifier/timestamp.ts";
import type { TimestampedOptions, UrlOptions } from "./verifier/verifierOf.ts";

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
  /** Text before the signature; "" for none. Default: the algorithm and `=`, like `sha256=`. */
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
   * none, so that an event that is delivered again runs again.
   */
  readonly id?: DetailSource;
  /** The event's type. Default: the header `X-Event-Type`. */
  readonly event?: DetailSource;
  /** `plain` (default): the key is the secret's UTF-8. `whsec`: the base64 after `whsec_`. */
  readonly secretFormat?: "plain" | "whsec";
}

/** Options of `hmac`. `toleranceSeconds`: 300 by default. */
export interface HmacOptions extends TimestampedOptions, UrlOptions, HmacScheme {}

/** Options of `unsigned`. */
export interface UnsignedOptions {
  /**
   * Name in dedup keys and logs: 1 to 64 letters, digits, `-` and `_`; not that of a provider whose
   * signatures can be verified, like `github`. Default `unsigned`.
   */
  readonly provider?: string;
  /** The event's id, for deduplication. Default: none, and a repeated event runs again. */
  readonly id?: DetailSource;
  /** The event's type. Default: the header `X-Event-Type`. */
  readonly event?: DetailSource;
  /** Whether a body that was seen before under another id is refused too. Default false. */
  readonly replayGuard?: boolean;
}

const SCHEME = [
  "provider", "algorithm", "header", "prefix", "separator", "encoding", "template", "timestamp",
  "id", "event", "secretFormat",
] as const satisfies ReadonlyArray<keyof HmacScheme>; // prettier-ignore
const HMAC: ReadonlySet<string> = new Set<keyof HmacOptions>([
  "secret", ...SCHEME, "replayGuard", "toleranceSeconds", "url",
]); // prettier-ignore
const UNSIGNED: ReadonlySet<string> = new Set<keyof UnsignedOptions>([
  "provider", "id", "event", "replayGuard",
]); // prettier-ignore

/** The values of options that are one of a few. */
const CHOICES = {
  algorithm: ["sha256", "sha1", "sha512"],
  encoding: ["hex", "base64"],
  secretFormat: ["plain", "whsec"],
} as const;
const UNITS: ReadonlyArray<unknown> = ["s", "ms", "iso"];

const wrong = (why: string) => new InvalidWebhook({ message: `hmac(…): ${why}` });

/** Throws for options of `hmac` of which no row can be made. */
export function checkHmac(options: HmacOptions): void {
  refuse("hmac", optionsFault(options, HMAC));
  checkScheme(options);
}

/** The same for those of `unsigned`. */
export function checkUnsigned(options: UnsignedOptions): void {
  refuse("unsigned", optionsFault(options, UNSIGNED));
  checkDetails(options, (why) => new InvalidWebhook({ message: `unsigned(…): ${why}` }));
}

/** The same for how the sender signs, which `sign.hmac` takes alone. */
export function checkScheme(options: HmacScheme): void {
  for (const [option, values] of Object.entries(CHOICES)) {
    const given: unknown = options[option as keyof typeof CHOICES];
    if (given !== undefined && !(values as ReadonlyArray<unknown>).includes(given))
      throw wrong(`${option} is ${shownValue(given)}: use ${values.map(shownValue).join(" or ")}`);
  }
  for (const option of ["prefix", "separator", "template"] as const)
    if (options[option] !== undefined && typeof options[option] !== "string")
      throw wrong(`${option} is ${shownValue(options[option])}: use a text`);
  if (options.separator === "") throw wrong(`separator is "": leave it out for one signature`);
  if (options.header !== undefined) checkHeader(options.header, "header", wrong);
  checkDetails(options, wrong);
  checkTimestamp(options);
  checkTemplate(options);
}

function checkTimestamp({ timestamp, separator }: HmacScheme): void {
  if (timestamp === undefined) return;
  if (!isSource(timestamp, "item", ["unit"]))
    throw wrong(`timestamp: use { header: "x-timestamp" } or { item: "t=" }, and a unit`);
  if ("header" in timestamp) checkHeader(timestamp.header, "timestamp", wrong);
  else if (separator === undefined)
    throw wrong(`a timestamp in the signature's header needs its separator, like ","`);
  const { unit = "s" } = timestamp;
  if (!UNITS.includes(unit))
    throw wrong(`timestamp.unit is ${shownValue(unit)}: use ${UNITS.map(shownValue).join(" or ")}`);
}

function checkTemplate({ template = "{body}", timestamp, id }: HmacScheme): void {
  const parts = parseTemplate(template);
  if (parts.includes("timestamp") && timestamp === undefined)
    throw wrong(
      "the template contains {timestamp}, so its place is needed: timestamp: { header: … }",
    );
  if (timestamp !== undefined && !parts.includes("timestamp"))
    throw wrong("a timestamp must be signed: put {timestamp} in the template");
  if (parts.includes("id") && !(id !== undefined && "header" in id))
    throw wrong("the template contains {id}, so its header is needed: id: { header: … }");
  for (const own of ["form", "crc32", "webhook"] as const)
    if (parts.includes(own)) throw wrong(`{${own}} is only available to built-in providers`);
  if (!parts.includes("body") && !parts.includes("url"))
    throw wrong("the template signs neither {body} nor {url}");
}

function checkDetails(
  options: Pick<UnsignedOptions, "id" | "event">,
  refusal: (why: string) => InvalidWebhook,
): void {
  for (const option of ["id", "event"] as const) {
    const given: DetailSource | undefined = options[option];
    if (given === undefined) continue;
    if (!isSource(given, "field"))
      throw refusal(`${option}: use { header: "x-${option}" } or { field: "a.b" }`);
    if ("header" in given) checkHeader(given.header, option, refusal);
  }
}

/** Whether it is an object with the text `header` or the other, and only the options named. */
function isSource(value: unknown, other: string, also: ReadonlyArray<string> = []): boolean {
  if (optionsFault(value, new Set(["header", other, ...also])) !== undefined) return false;
  const texts = ["header", other].filter((name) => Object.hasOwn(value as object, name));
  return texts.length === 1 && typeof (value as Record<string, unknown>)[texts[0]!] === "string";
}

function checkHeader(
  name: unknown,
  option: string,
  refusal: (why: string) => InvalidWebhook,
): void {
  if (typeof name !== "string" || !isHeaderName(name))
    throw refusal(`${option}: ${shownValue(name)} is not a header's name`);
}

function refuse(what: string, fault: string | undefined): void {
  if (fault !== undefined) throw new InvalidWebhook({ message: `${what}: ${fault}` });
}
