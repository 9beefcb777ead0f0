/**
 * Origins of browsers' requests: how they are written in settings, and which requests come from the
 * server's own. Pure; read by the module's loader and the command line, asked by the gateway's
 * default routing.
 */

/** Lets every origin in. */
export const ANY_ORIGIN = "*";

/** As a browser writes it in `Origin`, or `*`; undefined: the text is no origin. */
export function readOrigin(text: string): string | undefined {
  if (text === ANY_ORIGIN) return text;
  // "*.example.com" would look as if it meant all below it.
  if (text.includes("*") || !URL.canParse(text)) return undefined;
  const { origin, href } = new URL(text);
  return origin !== "null" && href === `${origin}/` ? origin : undefined;
}

/**
 * True when the host of `origin` is one of `asked`: values of `Host`, or the authority of the
 * public URL. The schemes are not compared, for the server does not know what a proxy speaks to its
 * callers.
 */
export function isSameOrigin(origin: string, asked: ReadonlyArray<string>): boolean {
  if (origin === ANY_ORIGIN || readOrigin(origin) === undefined) return false;
  const { protocol, host } = new URL(origin);
  // With the scheme of the origin, so that its default port is left out on both sides.
  return asked.some((authority) => {
    const url = `${protocol}//${authority}/`;
    return URL.canParse(url) && new URL(url).host === host;
  });
}
