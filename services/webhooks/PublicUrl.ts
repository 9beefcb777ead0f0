/**
 * The URL that a provider signed: the one it was told, which behind a proxy need not be the one that
 * arrives here. Fed by `verifierOf` for the rows whose template has `{url}`.
 *
 * - Not configured: the request's own, whose scheme and host the gateway takes from its `publicUrl`.
 * - An origin (`https://hooks.example.com`, no slash): that, and the request's path and query as they came.
 * - A whole URL: that, with the request's query behind it unless it has one.
 */
import { InvalidWebhook, type WebhookRequest } from "../../core/webhook/WebhookRoute.ts";

const ORIGIN = /^https?:\/\/[^/?#\s]+$/i;
const WHOLE = /^https?:\/\/[^/?#\s]+[/?][^#\s]*$/i;
const VARIABLE = /^[A-Za-z_][A-Za-z0-9_]*$/;

export type SignedUrl =
  | { readonly _tag: "Url"; readonly url: string }
  | { readonly _tag: "Misconfigured"; readonly message: string };

export class PublicUrl {
  /** `setting`: a URL, or the name of an environment variable that holds one. Throws `InvalidWebhook`. */
  constructor(
    private readonly provider: string,
    private readonly setting: string | undefined,
  ) {
    if (setting === undefined || VARIABLE.test(setting) || isUsable(setting)) return;
    throw new InvalidWebhook({
      message: `${provider}({ url: "${setting}" }): give an origin like https://hooks.example.com, a whole URL, or the name of an environment variable`,
    });
  }

  /** Whether it is the request's own path that the signature covers. */
  get hasRequestPath(): boolean {
    return this.setting === undefined || ORIGIN.test(this.setting);
  }

  of(request: WebhookRequest): SignedUrl {
    const { setting, provider } = this;
    if (setting === undefined) return { _tag: "Url", url: request.url };
    let url: unknown = setting;
    if (VARIABLE.test(setting)) {
      url = Object.hasOwn(request.env, setting) ? request.env[setting] : undefined;
      if (typeof url !== "string" || !isUsable(url))
        return {
          _tag: "Misconfigured",
          message: `${provider}: ${setting} is not a URL: set it to the one that the provider was told`,
        };
    }
    const { path, query } = targetOf(request.url);
    const given = url as string;
    if (ORIGIN.test(given)) return { _tag: "Url", url: given + path + query };
    return { _tag: "Url", url: given.includes("?") ? given : given + query };
  }
}

const isUsable = (text: string): boolean => ORIGIN.test(text) || WHOLE.test(text);

/** Text, not `new URL(…)`, which rewrites escapes: what was signed is what was sent. */
function targetOf(url: string): { readonly path: string; readonly query: string } {
  const rest = url.replace(/^[a-z][a-z0-9+.-]*:\/\/[^/?#]*/i, "");
  const query = rest.indexOf("?");
  return query === -1
    ? { path: rest, query: "" }
    : { path: rest.slice(0, query), query: rest.slice(query) };
}
