/**
 * Providers that sign the URL of the webhook as it is configured with them: one row each. Behind a
 * proxy that URL differs from the request's own: see `PublicUrl` and the option `url`. HubSpot,
 * which signs the URL too, has three versions: see `hubspot.ts`.
 *
 * `providers.ts` says how to add a row. All exports are public.
 */
import { parse as parseQuery, stringify as formatQuery } from "node:querystring";
import { splitQuery } from "../verifier/PublicUrl.ts";
import { SCHEME_DEFAULTS } from "../verifier/SignatureScheme.ts";
import type { UrlOptions, VerifierOptions } from "../verifier/verifierOf.ts";
import { provider } from "./Provider.ts";

/**
 * Twilio, with the account's auth token, or the secret of a SharedKey. The body is a form, or JSON
 * whose hash is in the URL: for such a body `sign.twilio` needs a `url` with its SHA-256 (hex) as
 * `bodySHA256`. Deadline 14 s.
 * https://www.twilio.com/docs/usage/security#validating-requests
 */
export const twilio = provider<VerifierOptions & UrlOptions>({
  ...SCHEME_DEFAULTS,
  provider: "twilio",
  // Twilio times out after 15 s. It acts on the agent's own answer to a call, so the wait pays off.
  deadlineMs: 14_000,
  algorithm: "hmac-sha1",
  algorithmHeader: {
    name: "x-twilio-webhooks-signature-settings",
    algorithmIn: (settings) => TWILIO_ALGORITHMS.get(namedAlgorithm(settings)),
  },
  encoding: "base64",
  headers: [{ signature: "x-twilio-signature", id: "i-twilio-idempotency-token" }],
  prefix: "",
  template: "{url}{form}",
  urls: twilioUrls,
  bodyHashParameter: "bodySHA256",
  eventFields: ["EventType", "MessageStatus", "SmsStatus", "CallStatus"],
});

/**
 * Square, with the subscription's signature key. The event's id is in the signed body. The URL is
 * that of the subscription, to the letter. Deadline 5 s.
 * https://developer.squareup.com/docs/webhooks/step3validate
 */
export const square = provider<VerifierOptions & UrlOptions>({
  ...SCHEME_DEFAULTS,
  provider: "square",
  encoding: "base64",
  headers: [{ signature: "x-square-hmacsha256-signature" }],
  prefix: "",
  template: "{url}{body}",
  idFields: ["event_id"],
  eventFields: ["type"],
});

/** The names in `key=…,algorithm=…`, which Twilio sends with webhooks that a SharedKey signs. */
const TWILIO_ALGORITHMS: ReadonlyMap<string, "hmac-sha1" | "hmac-sha256"> = new Map([
  ["HMAC_SHA1", "hmac-sha1"],
  ["HMAC_SHA256", "hmac-sha256"],
]);
const namedAlgorithm = (settings: string): string =>
  /(?:^|,)\s*algorithm\s*=\s*([^,\s]+)/.exec(settings)?.[1]?.toUpperCase() ?? "HMAC_SHA1";

/**
 * The URLs that Twilio's library tries: as sent first, without and with its port; then with the
 * query as `new URL` and as Node's older `querystring` write it. The path is never rewritten: the
 * route was matched by the path that was sent.
 */
function twilioUrls(url: string): ReadonlyArray<string> {
  const { path, query } = splitQuery(url);
  const queries = [query];
  if (query.length > 1) {
    try {
      queries.push(new URL(query, "https://x").search);
      queries.push(`?${formatQuery(parseQuery(query.slice(1)))}`);
    } catch {
      // The text is not well-formed Unicode: only the query as it was sent is tried.
    }
  }
  const spellings = queries.map((each) => path + each);
  return [...new Set(spellings.flatMap((each) => [withoutPort(each), withPort(each)]))];
}

/** Scheme and `://`, user and host, port, the rest. Read when a request comes, not on import. */
const PARTS = /^([a-z][a-z0-9+.-]*:\/\/)((?:[^/?#@]*@)?(?:\[[^\]/?#]*\]|[^/?#:]*))(:\d+)?(.*)$/is;

const withoutPort = (url: string): string => url.replace(PARTS, "$1$2$4");

function withPort(url: string): string {
  const [, scheme, host, port, rest] = PARTS.exec(url) ?? [];
  if (scheme === undefined || port !== undefined) return url;
  return `${scheme}${host}${scheme.toLowerCase() === "https://" ? ":443" : ":80"}${rest}`;
}
