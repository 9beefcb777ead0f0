/**
 * Which headers and query parameters of a request are credentials. They are never stored, journaled
 * or logged: a header is left out, a parameter's value becomes `REDACTED`. The live request that an
 * agent answers over HTTP or a socket keeps them; a webhook's agent is given what is stored, so it
 * does not see them. Signatures in headers are no credentials and stay.
 *
 * Used by the gateway before a webhook is given away or stored, and for causes and log lines. A
 * route adds names of its own (`webhook(path, { redact })`), and its verifier those that it reads a
 * secret from.
 */
import { REDACTED } from "./FieldRedaction.ts";

/** What is hidden besides the usual names. Header names in any case. */
export interface RedactNames {
  readonly headers?: ReadonlyArray<string>;
  readonly query?: ReadonlyArray<string>;
  /** Paths of fields of the body, which the agent sees: `customer.email`, `card.*`. */
  readonly body?: ReadonlyArray<string>;
}

const HEADERS = [
  "authorization", "proxy-authorization", "authentication", "cookie", "set-cookie",
  "api-key", "apikey", "x-api-key", "x-apikey", "x-api-token", "x-api-secret", "x-functions-key", "ocp-apim-subscription-key",
  "x-auth", "x-auth-key", "x-auth-token", "x-access-token", "x-access-key", "x-id-token", "x-refresh-token", "x-session-token", "x-session-id",
  "x-token", "x-secret", "x-client-secret", "x-password", "x-authorization", "x-forwarded-access-token", "x-forwarded-authorization",
  "x-csrf-token", "x-xsrf-token", "csrf-token", "xsrf-token",
  "x-webhook-token", "x-webhook-secret", "x-hook-secret", "x-gitlab-token", "private-token", "job-token", "deploy-token",
  "x-telegram-bot-api-secret-token", "x-goog-channel-token", "x-goog-api-key", "x-goog-iap-jwt-assertion", "x-amz-security-token",
  "x-amzn-oidc-accesstoken", "x-amzn-oidc-data", "cf-access-jwt-assertion", "cf-access-client-secret", "x-ms-token-aad-access-token",
  "x-ms-token-aad-id-token", "x-shopify-access-token", "x-vault-token", "x-github-token",
]; // prettier-ignore

/** Whole names of parameters, without `-`, `_` and `.`. */
const PARAMETERS = [
  "auth", "authorization", "key", "pass", "pwd", "passphrase", "sig", "hmac", "code", "jwt", "otp",
  "session", "sessionid", "assertion", "bearer",
]; // prettier-ignore
/** Ends of such names: `access_token`, `hub.verify_token`, `X-Amz-Signature`, `clientSecret`. */
const PARAMETER_ENDS = /(?:token|secret|password|passwd|signature|apikey|accesskey|credential)$/;

/** User and password of a URL, after its scheme. */
const USER = /^([a-z][a-z0-9+.-]*:\/\/)[^/?#]*@/i;

export class Redaction {
  private readonly headers: ReadonlySet<string>;
  private readonly parameters: ReadonlySet<string>;

  constructor({ headers = [], query = [] }: RedactNames = {}) {
    this.headers = new Set([...HEADERS, ...headers.map((name) => name.toLowerCase())]);
    this.parameters = new Set([...PARAMETERS, ...query.flatMap(bareNames)]);
  }

  /** `name` in lower case. */
  hidesHeader(name: string): boolean {
    return this.headers.has(name);
  }

  /** The record without the headers that are hidden; itself where there are none. */
  record(headers: Readonly<Record<string, string>>): Readonly<Record<string, string>> {
    for (const name in headers)
      if (this.headers.has(name))
        return Object.fromEntries(Object.entries(headers).filter(([n]) => !this.headers.has(n)));
    return headers;
  }

  /**
   * The URL, or request target, with user and password and the values of hidden parameters
   * replaced; all else to the letter.
   */
  url(given: string): string {
    const url = given.includes("@") ? given.replace(USER, `$1${REDACTED}@`) : given;
    const start = url.indexOf("?") + 1;
    if (start === 0) return url;
    const hash = url.indexOf("#", start);
    const end = hash === -1 ? url.length : hash;
    const query = url.slice(start, end).split("&").map((pair) => this.pair(pair)).join("&"); // prettier-ignore
    return url.slice(0, start) + query + url.slice(end);
  }

  private pair(pair: string): string {
    const equals = pair.indexOf("=");
    // There is nothing to hide without a value.
    if (equals === -1 || equals === pair.length - 1) return pair;
    const isHidden = bareNames(pair.slice(0, equals)).some(
      (name) => this.parameters.has(name) || PARAMETER_ENDS.test(name),
    );
    return isHidden ? pair.slice(0, equals + 1) + REDACTED : pair;
  }
}

/**
 * As senders of one name write it: `api_key`, `api-key`, `apiKey`, `%61pi_key`. Each part of a name
 * in brackets is one: `user[api_key]`, `api_key[]`, `api_key[0]`.
 */
function bareNames(written: string): string[] {
  let name = written;
  try {
    name = decodeURIComponent(written.replaceAll("+", " "));
  } catch {
    // A broken escape: the name is used as it is.
  }
  const parts = name.toLowerCase().split(/[[\]]+/);
  return parts.map((part) => part.trim().replace(/[-_.]/g, ""));
}

/** The usual names only. */
export const REDACTION = new Redaction();
