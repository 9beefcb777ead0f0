/**
 * Which pages of browsers may call an MCP server by its route. A server on the developer's machine
 * is reached by every site that its user visits, and CORS lets the site read the answers. A server
 * under a public name is reached by everybody anyway, and its clients may be pages of any site, as
 * in the reference; the protocol wants a list of them, which is an option.
 */
import { pageOrigin } from "../../core/http/origins.ts";
import { hostNameOf, isLoopbackHost } from "../../core/http/servedHosts.ts";
import { foreignPage } from "./refusals.ts";

/** Options of `serve`. */
interface AllowedPages {
  readonly allowedOriginHostnames?: ReadonlyArray<string> | "*";
  readonly corsOptions?: { readonly origin?: string };
}

/** Undefined if the request may pass. */
export function pageRefusal(
  { headers, url }: Pick<Request, "headers" | "url">,
  { allowedOriginHostnames, corsOptions }: AllowedPages,
): Response | undefined {
  const origin = pageOrigin(headers);
  if (origin === undefined || allowedOriginHostnames === "*") return undefined;
  const page = hostnameOf(origin);
  const isListed = allowedOriginHostnames?.includes(page ?? "");
  if (isListed ?? (!isHere(hostnameOf(url)) || isHere(page))) return undefined;
  const read = corsOptions?.origin;
  const isReader = allowedOriginHostnames === undefined && read !== undefined && read === origin;
  return isReader ? undefined : foreignPage(origin);
}

const hostnameOf = (url: string): string | undefined =>
  URL.canParse(url) ? new URL(url).hostname : undefined;

const isHere = (hostname: string | undefined): boolean =>
  hostname !== undefined && isLoopbackHost(hostNameOf(hostname) ?? "");
