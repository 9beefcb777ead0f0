/** CORS of MCP endpoints: what browsers' MCP clients need, unless the app says otherwise. */

/** Values of the headers of the same names. */
export interface CORSOptions {
  /** Default `*`. */
  readonly origin?: string;
  /** Default `GET, POST, DELETE, OPTIONS`. */
  readonly methods?: string;
  /** Default: those of the protocol, and `Authorization`. */
  readonly headers?: string;
  /** Seconds that a preflight is valid. Default 86400. */
  readonly maxAge?: number;
  /** Default `mcp-session-id`. */
  readonly exposeHeaders?: string;
}

const REQUEST_HEADERS =
  "Content-Type, Accept, Authorization, mcp-session-id, MCP-Protocol-Version, Mcp-Method, Mcp-Name, Last-Event-ID";
/** A day, the longest that browsers keep a preflight. */
const MAX_AGE_SECONDS = 86_400;

function corsHeaders(options: CORSOptions = {}): Readonly<Record<string, string>> {
  return {
    "access-control-allow-origin": options.origin ?? "*",
    "access-control-allow-methods": options.methods ?? "GET, POST, DELETE, OPTIONS",
    "access-control-allow-headers": options.headers ?? REQUEST_HEADERS,
    "access-control-expose-headers": options.exposeHeaders ?? "mcp-session-id",
    "access-control-max-age": String(options.maxAge ?? MAX_AGE_SECONDS),
  };
}

/** The same response, with the headers; one whose headers can't be changed is made again. */
export function withCors(response: Response, options: CORSOptions | undefined): Response {
  const headers = new Headers(response.headers);
  for (const [name, value] of Object.entries(corsHeaders(options))) headers.set(name, value);
  return new Response(response.body, { status: response.status, headers });
}

/** The answer to a preflight. */
export const preflight = (options: CORSOptions | undefined): Response =>
  new Response(null, { status: 204, headers: corsHeaders(options) });
