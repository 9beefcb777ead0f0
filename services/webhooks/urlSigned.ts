/**
 * Providers that sign the URL they were told: one row each, and the function that users write in a
 * route. Behind a proxy that URL is not the request's own: see `PublicUrl` and the option `url`.
 */
import { parse as parseQuery, stringify as formatQuery } from "node:querystring";
import type { Verifier } from "../../core/webhook/WebhookRoute.ts";
import { base, TOLERANCE_SECONDS_DEFAULT } from "./providers.ts";
import type { SignatureScheme } from "./SignatureScheme.ts";
import {
  verifierOf,
  type TimestampedOptions,
  type UrlOptions,
  type VerifierOptions,
} from "./verifierOf.ts";

/** https://www.twilio.com/docs/usage/security#validating-requests; the URLs are those that its library tries. */
export const twilioScheme: SignatureScheme = {
  ...base,
  provider: "twilio",
  // Twilio gives up after 15 s, and what it reads of a call is the agent's own answer: it is worth the wait.
  deadlineMs: 14_000,
  algorithm: "hmac-sha1",
  encoding: "base64",
  headers: [{ signature: "x-twilio-signature", id: "i-twilio-idempotency-token" }],
  prefix: "",
  template: "{url}{form}",
  urls: twilioUrls,
  bodyHashParameter: "bodySHA256",
  eventFields: ["EventType", "MessageStatus", "SmsStatus", "CallStatus"],
};

/** https://developer.squareup.com/docs/webhooks/step3validate: the URL of the subscription, to the letter. */
export const squareScheme: SignatureScheme = {
  ...base,
  provider: "square",
  encoding: "base64",
  headers: [{ signature: "x-square-hmacsha256-signature" }],
  prefix: "",
  template: "{url}{body}",
  idFields: ["event_id"],
  eventFields: ["type"],
};

const hubspotDetails = {
  // No one of them is said to be unique; an attempt's number must not be part, or a retry would be new.
  idFields: ["eventId", "subscriptionId", "occurredAt"],
  eventFields: ["subscriptionType"],
  retryField: "attemptNumber",
} as const;
const hubspotBase = {
  ...base,
  provider: "hubspot",
  deadlineMs: 4500, // HubSpot gives up after 5 s.
  prefix: "",
  ...hubspotDetails,
  batch: hubspotDetails,
} as const;

/** https://developers.hubspot.com/docs/guides/apps/authentication/validating-requests */
export const hubspotScheme: SignatureScheme = {
  ...hubspotBase,
  encoding: "base64",
  headers: [{ signature: "x-hubspot-signature-v3", timestamp: "x-hubspot-request-timestamp" }],
  template: "{method}{url}{body}{timestamp}",
  timestamp: { unit: "ms", toleranceSeconds: TOLERANCE_SECONDS_DEFAULT },
  urls: hubspotUrls,
};

/** Its version 2: no time, and a plain digest. */
export const hubspotV2Scheme: SignatureScheme = {
  ...hubspotBase,
  algorithm: "secret-sha256",
  headers: [{ signature: "x-hubspot-signature" }],
  template: "{method}{url}{body}",
};

/** Its version 1: who has one signed body can make another that begins with it. */
export const hubspotV1Scheme: SignatureScheme = { ...hubspotV2Scheme, template: "{body}" };

/** Twilio, with the account's auth token. Forms, and JSON by its hash in the URL. Deadline 14 s. */
export const twilio = (options: VerifierOptions & UrlOptions): Verifier =>
  verifierOf(twilioScheme, options);

/** Square, with the subscription's signature key. The event's id is in the signed body. */
export const square = (options: VerifierOptions & UrlOptions): Verifier =>
  verifierOf(squareScheme, options);

export interface HubspotOptions extends TimestampedOptions, UrlOptions {
  /** Which of HubSpot's signatures must be right; `v3` unless said otherwise, the only one with a time. */
  readonly version?: "v1" | "v2" | "v3";
}

/**
 * HubSpot, with the app's client secret. Each event of a webhook's list is an input of its own. A
 * request with another version's signature is refused: the older ones are weaker.
 */
export const hubspot = (options: HubspotOptions): Verifier =>
  verifierOf(HUBSPOT_VERSIONS[options.version ?? "v3"], options);

const HUBSPOT_VERSIONS = { v1: hubspotV1Scheme, v2: hubspotV2Scheme, v3: hubspotScheme } as const;

/**
 * As sent first, without and with its port; then with the query as `new URL` and as Node's old
 * `querystring` write it. The path is never rewritten: the route was matched by what was sent.
 */
function twilioUrls(url: string): ReadonlyArray<string> {
  const { path, query } = splitQuery(url);
  const queries = [query];
  if (query.length > 1) {
    try {
      queries.push(new URL(query, "https://x").search);
      queries.push(`?${formatQuery(parseQuery(query.slice(1)))}`);
    } catch {
      // Text that is not well-formed Unicode: then only as it was sent.
    }
  }
  const spellings = queries.map((each) => path + each);
  return [...new Set(spellings.flatMap((each) => [withoutPort(each), withPort(each)]))];
}

function splitQuery(url: string): { readonly path: string; readonly query: string } {
  const at = url.indexOf("?");
  return at === -1 ? { path: url, query: "" } : { path: url.slice(0, at), query: url.slice(at) };
}

const PARTS = /^([a-z][a-z0-9+.-]*:\/\/)((?:[^/?#@]*@)?(?:\[[^\]/?#]*\]|[^/?#:]*))(:\d+)?(.*)$/is;

const withoutPort = (url: string): string => url.replace(PARTS, "$1$2$4");

function withPort(url: string): string {
  const [, scheme, host, port, rest] = PARTS.exec(url) ?? [];
  if (scheme === undefined || port !== undefined) return url;
  return `${scheme}${host}${scheme.toLowerCase() === "https://" ? ":443" : ":80"}${rest}`;
}

/** What HubSpot's documentation wants decoded in the URL before it is hashed; its library leaves it. */
const HUBSPOT_DECODED: Readonly<Record<string, string>> = {
  "%3A": ":",
  "%2F": "/",
  "%3F": "?",
  "%40": "@",
  "%21": "!",
  "%24": "$",
  "%27": "'",
  "%28": "(",
  "%29": ")",
  "%2A": "*",
  "%2C": ",",
  "%3B": ";",
};

/** In the path a slash and a question mark stay: decoded they would make another path of it. */
const HUBSPOT_KEPT_IN_PATH = /^%(?:2F|3F)$/i;

function hubspotUrls(url: string): ReadonlyArray<string> {
  const { path, query } = splitQuery(url);
  const decode = (code: string): string => HUBSPOT_DECODED[code.toUpperCase()] ?? code;
  const decoded =
    path.replace(/%[0-9a-f]{2}/gi, (code) =>
      HUBSPOT_KEPT_IN_PATH.test(code) ? code : decode(code),
    ) + query.replace(/%[0-9a-f]{2}/gi, decode);
  return decoded === url ? [url] : [url, decoded];
}
