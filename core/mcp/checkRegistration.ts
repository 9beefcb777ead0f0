/**
 * Checks what `registerServer` is given, beside the id (`checkServerId`) and the server's address
 * (`McpClientsShape.refusal`). The name and the URLs are parts of every frame to the agent's
 * clients, so they are bounded. Pure.
 */
/** A line on a screen, and more than it shows. */
const NAME_CHARS_MAX = 1_000;
/** Servers refuse longer ones: Node's limit of a request's whole head. */
export const URL_CHARS_MAX = 16_384;

const TRANSPORTS: ReadonlyArray<unknown> = ["auto", "streamable-http", "sse"];

interface Registration {
  readonly name: string;
  readonly url: string;
  readonly callbackUrl?: string;
  readonly transport?: { readonly type?: string };
}

/** Throws `TypeError` or `RangeError` with the part that is wrong. */
export function checkRegistration(given: Registration): void {
  const { name, url, callbackUrl = "", transport: { type = "auto" } = {} } = given;
  if (typeof name !== "string" || name === "") throw new TypeError("An MCP server needs a name");
  if (name.length > NAME_CHARS_MAX)
    throw new RangeError(`An MCP server's name has at most ${NAME_CHARS_MAX} characters`);
  for (const each of [url, callbackUrl])
    if (each.length > URL_CHARS_MAX)
      throw new RangeError(`An MCP server's URLs have at most ${URL_CHARS_MAX} characters`);
  if (callbackUrl !== "" && !isWeb(callbackUrl))
    throw new TypeError(
      `An MCP server's callback URL begins with https:// or http://, as callbackHost does; "${callbackUrl}" does not`,
    );
  if (!TRANSPORTS.includes(type))
    throw new TypeError(
      `An MCP server has no transport ${JSON.stringify(type)}. Use "auto", "streamable-http" or "sse"`,
    );
}

const isWeb = (url: string): boolean => URL.canParse(url) && /^https?:\/\//i.test(url);
