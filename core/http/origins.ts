/**
 * Origins of browsers' requests: how settings write them, which page a request comes from, and
 * which requests come from the server's own origin. Pure; used by the module's loader, the command
 * line and the gateway's default routing.
 */

/** Allows every origin. */
export const ANY_ORIGIN = "*";

/** Returns the origin as a browser writes it, or `*`; undefined if the text is not an origin. */
export function readOrigin(text: string): string | undefined {
  if (text === ANY_ORIGIN) return text;
  // "*.example.com" would look as if it matched all subdomains.
  if (text.includes("*") || !URL.canParse(text)) return undefined;
  const { origin, href } = new URL(text);
  return origin !== "null" && href === `${origin}/` ? origin : undefined;
}

/** What browsers send for a page whose origin they do not tell. */
const HIDDEN_ORIGIN = "null";

/**
 * Returns the origin of the page that the request comes from. Undefined: it comes from the server's
 * own page, from no page, or from somebody who opened an address or followed a link. Browsers send
 * no `Origin` for images, scripts and `no-cors` requests by GET. They say in `Sec-Fetch-Site` that
 * such a request is another page's, over HTTPS and to loopback addresses, and in `Referer` whose it
 * is, unless the page hides it: then its origin is `null`.
 */
export function pageOrigin(headers: Pick<Headers, "get">): string | undefined {
  const origin = headers.get("origin");
  if (origin !== null) return origin;
  const site = headers.get("sec-fetch-site");
  if (site !== "cross-site" && site !== "same-site") return undefined;
  if (headers.get("sec-fetch-mode") === "navigate") return undefined;
  const referer = headers.get("referer") ?? "";
  return URL.canParse(referer) ? new URL(referer).origin : HIDDEN_ORIGIN;
}

/**
 * True if the host of `origin` is one of `asked`: values of `Host`, or the authority of the public
 * URL. Schemes are not compared, because the server does not know which one a proxy in front of it
 * serves.
 */
export function isSameOrigin(origin: string, asked: ReadonlyArray<string>): boolean {
  if (origin === ANY_ORIGIN || readOrigin(origin) === undefined) return false;
  const { protocol, host } = new URL(origin);
  // Parsed with the scheme of the origin, so that both sides omit the same default port.
  return asked.some((authority) => {
    const url = `${protocol}//${authority}/`;
    return URL.canParse(url) && new URL(url).host === host;
  });
}
