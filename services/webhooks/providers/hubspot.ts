/**
 * HubSpot, which signs in three versions. A route accepts one of them, since the older ones are
 * weaker: version 2 has no time and is a plain digest; version 1 covers the body only, and someone
 * who has one signed body can make another that begins with it. `sign` signs in each version.
 */
import { InvalidWebhook } from "../../../core/webhook/WebhookRoute.ts";
import { splitQuery } from "../verifier/PublicUrl.ts";
import {
  SCHEME_DEFAULTS,
  TOLERANCE_SECONDS_DEFAULT,
  type SignatureScheme,
} from "../verifier/SignatureScheme.ts";
import { verifierOf, type TimestampedOptions, type UrlOptions } from "../verifier/verifierOf.ts";
import { provider } from "./Provider.ts";

const details = {
  // None of them is documented as unique. An attempt's number would make a retry a new event.
  idFields: ["eventId", "subscriptionId", "occurredAt"],
  eventFields: ["subscriptionType"],
  retryField: "attemptNumber",
} as const;
const base = {
  ...SCHEME_DEFAULTS,
  provider: "hubspot",
  deadlineMs: 4500, // HubSpot times out after 5 s.
  prefix: "",
  ...details,
  batch: details,
} as const;

const v3: SignatureScheme = {
  ...base,
  encoding: "base64",
  headers: [{ signature: "x-hubspot-signature-v3", timestamp: "x-hubspot-request-timestamp" }],
  template: "{method}{url}{body}{timestamp}",
  timestamp: { unit: "ms", toleranceSeconds: TOLERANCE_SECONDS_DEFAULT },
  urls: hubspotUrls,
};
const v2: SignatureScheme = {
  ...base,
  algorithm: "secret-sha256",
  headers: [{ signature: "x-hubspot-signature" }],
  template: "{method}{url}{body}",
};
const v1: SignatureScheme = { ...v2, template: "{body}" };

/** The rows by the option `version`. */
export const HUBSPOT_VERSIONS = { v1, v2, v3 } as const;

/** Options of `hubspot`. `toleranceSeconds` is for `v3` only, 300 by default. */
export interface HubspotOptions extends TimestampedOptions, UrlOptions {
  /** The version of the signature that is verified. Default `v3`, the only one with a time. */
  readonly version?: "v1" | "v2" | "v3";
}

/**
 * HubSpot, with the app's client secret. Each event of a webhook's list is an input of its own. A
 * request that has only another version's signature is refused. Deadline 4.5 s.
 * https://developers.hubspot.com/docs/guides/apps/authentication/validating-requests
 */
export const hubspot = provider<HubspotOptions>(v3, {
  options: ["version"],
  verifier: (_, { version = "v3", ...options }) => {
    if (!Object.hasOwn(HUBSPOT_VERSIONS, version))
      throw new InvalidWebhook({
        message: `hubspot({ version: "${String(version)}" }): it is "v1", "v2" or "v3"`,
      });
    return verifierOf(HUBSPOT_VERSIONS[version], options);
  },
});

/** HubSpot's documentation decodes these in the URL before hashing; its library does not. */
const DECODED: Readonly<Record<string, string>> = {
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

/** A slash and a question mark stay escaped in the path: decoded, they would make another path. */
const KEPT_IN_PATH = /^%(?:2F|3F)$/i;

function hubspotUrls(url: string): ReadonlyArray<string> {
  const { path, query } = splitQuery(url);
  const decode = (code: string): string => DECODED[code.toUpperCase()] ?? code;
  const decoded =
    path.replace(/%[0-9a-f]{2}/gi, (code) => (KEPT_IN_PATH.test(code) ? code : decode(code))) +
    query.replace(/%[0-9a-f]{2}/gi, decode);
  return decoded === url ? [url] : [url, decoded];
}
