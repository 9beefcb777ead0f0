/**
 * The URL that a provider signed: the one configured with the provider, which behind a proxy can
 * differ from the one that arrives. `verifierOf` uses it for rows whose template has `{url}`.
 *
 * - Not configured: the request's own URL, with scheme and host from the gateway's `publicUrl`.
 * - An origin (`https://hooks.example.com`, no slash): the origin, then the request's path and
 *   query as they came.
 * - A whole URL: that URL, followed by the request's query unless it has one.
 */
import {
  InvalidWebhook,
  type Misconfigured,
  type SecretsCheck,
  type WebhookRequest,
} from "../../../core/webhook/WebhookRoute.ts";
import { VARIABLE } from "./Secrets.ts";

const ORIGIN = /^https?:\/\/[^/?#\s]+$/i;
const WHOLE = /^https?:\/\/[^/?#\s]+[/?][^#\s]*$/i;

/** The setting of one verifier. */
export class PublicUrl {
  /** `setting`: a URL, or the name of an environment variable with one. Throws `InvalidWebhook`. */
  constructor(
    private readonly provider: string,
    private readonly setting: string | undefined,
  ) {
    if (setting === undefined || VARIABLE.test(setting) || isUsable(setting)) return;
    throw new InvalidWebhook({
      message: `${provider}({ url: "${setting}" }): use an origin like https://hooks.example.com, a whole URL, or the name of an environment variable`,
    });
  }

  /** Whether the signature covers the request's own path. */
  get hasRequestPath(): boolean {
    return this.setting === undefined || ORIGIN.test(this.setting);
  }

  /** An unset variable leaves the route `Misconfigured`. */
  checkIn(env: Readonly<Record<string, unknown>>): Omit<SecretsCheck, "unset"> {
    const { setting } = this;
    if (setting === undefined || !VARIABLE.test(setting)) return { faults: [] };
    if (!Object.hasOwn(env, setting)) return { unsetUrls: [setting], faults: [] };
    const found = this.of({ url: "", env });
    return { faults: typeof found === "string" ? [] : [found.message] };
  }

  /**
   * A likely mistake, for the log when no signature matches: a proxy says that the request came by
   * another URL than the one that was checked. Anyone can send these headers, so nothing else
   * depends on them.
   */
  hintFor({ url, headers }: Pick<WebhookRequest, "url" | "headers">): string | undefined {
    if (this.setting !== undefined) return undefined;
    const [, scheme, host] = /^([a-z]+):\/\/([^/?#]*)/.exec(url.toLowerCase()) ?? [];
    const saidScheme = outermost(headers["x-forwarded-proto"]?.[0]) ?? scheme;
    const saidHost = outermost(headers["x-forwarded-host"]?.[0]) ?? host;
    return saidScheme === scheme && saidHost === host
      ? undefined
      : "a proxy received it at another URL: set --public-url, or the verifier's url";
  }

  /** The URL that the provider signed for this request; `Misconfigured` if there is none. */
  of(request: Pick<WebhookRequest, "url" | "env">): string | Misconfigured {
    const { setting, provider } = this;
    if (setting === undefined) return request.url;
    let url: unknown = setting;
    if (VARIABLE.test(setting)) {
      url = Object.hasOwn(request.env, setting) ? request.env[setting] : undefined;
      if (typeof url !== "string" || !isUsable(url))
        return {
          _tag: "Misconfigured",
          message: `${provider}: ${setting} is not a URL: set it to the URL that is configured at the provider`,
        };
    }
    const { path, query } = targetOf(request.url);
    const given = url as string;
    if (ORIGIN.test(given)) return given + path + query;
    return given.includes("?") ? given : given + query;
  }
}

/** The first of a header's values: with several proxies, what the outermost one received. */
const outermost = (value: string | undefined): string | undefined =>
  value?.split(",", 1)[0]!.trim().toLowerCase();

const isUsable = (text: string): boolean => ORIGIN.test(text) || WHOLE.test(text);

/**
 * Path and query of a URL. Works on text: `new URL(…)` rewrites escapes, and the provider signed
 * the URL as it sent it.
 */
const targetOf = (url: string): UrlText =>
  splitQuery(url.replace(/^[a-z][a-z0-9+.-]*:\/\/[^/?#]*/i, ""));

interface UrlText {
  /** All before the query. */
  readonly path: string;
  /** With its question mark; empty without one. */
  readonly query: string;
}

/** Splits the text of a URL at its first question mark. */
export function splitQuery(url: string): UrlText {
  const at = url.indexOf("?");
  return at === -1 ? { path: url, query: "" } : { path: url.slice(0, at), query: url.slice(at) };
}
