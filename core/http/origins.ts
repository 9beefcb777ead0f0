/**
 * Origins of browsers' requests: how settings write them, and which requests come from the server's
 * own origin. Pure; used by the module's loader, the command line and the gateway's default
 * routing.
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
