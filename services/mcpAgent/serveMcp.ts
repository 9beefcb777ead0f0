/**
 * The route of a module to the sessions of an `McpAgent`: finds or begins the session, and passes
 * the request on to its agent. Runs in the gateway.
 */
import { AgentNamespace } from "../../core/namespace/AgentNamespace.ts";
import { authContextOf } from "../mcpHandler/authContext.ts";
import { preflight, withCors, type CORSOptions } from "../mcpHandler/cors.ts";

/** Options of `serve`. */
export interface ServeOptions {
  /** The name of the class's binding. Default `MCP_OBJECT`, else the class's own name. */
  readonly binding?: string;
  /** CORS headers of every response. */
  readonly corsOptions?: CORSOptions;
  /**
   * `auto` serves both at one path: a `GET` without a session opens the older transport's stream.
   * Default `streamable-http`.
   */
  readonly transport?: "streamable-http" | "sse" | "auto";
  /** Accepted for apps written for the reference, and ignored. */
  readonly jurisdiction?: string;
}

/** A default export of a module, or a part of its `fetch`. */
export interface McpRoute {
  /** Resolves to 404 for another path. Rejects when `env` has no such binding. */
  fetch(this: void, request: Request, env: object, ctx?: unknown): Promise<Response>;
}

const TRANSPORTS: ReadonlyArray<unknown> = ["streamable-http", "sse", "auto"];
/** The statuses' codes in the protocol's error objects: what the SDK's transport answers. */
const BAD_REQUEST = -32000;

/** At `/` every path is the server's. Throws `TypeError` for a transport that there is not. */
export function serveMcp(path: string, className: string, options: ServeOptions): McpRoute {
  const { binding = "MCP_OBJECT", corsOptions, transport = "streamable-http" } = options;
  if (!TRANSPORTS.includes(transport))
    throw new TypeError(
      `${className}.serve: there is no transport ${JSON.stringify(transport)}. Use "streamable-http", "sse" or "auto"`,
    );
  const messages = `${path.replace(/\/$/, "")}/message`;
  return {
    fetch: async (request, env, ctx) => {
      const { pathname } = new URL(request.url);
      const isMessage = transport !== "streamable-http" && pathname === messages;
      if (pathname !== path && path !== "/" && !isMessage)
        return new Response("Not Found", { status: 404 });
      if (request.method === "OPTIONS") return preflight(corsOptions);
      const namespace = namespaceOf(env as Record<string, unknown>, binding, className);
      const isSse =
        transport === "sse" ||
        isMessage ||
        (transport === "auto" && request.method === "GET" && !hasSession(request));
      const name = isSse ? sseSession(request, isMessage) : await streamableSession(request);
      if (name instanceof Response) return withCors(name, corsOptions);
      const props = authContextOf(ctx)?.props;
      const stub = namespace.getByName(name, props === undefined ? {} : { props });
      return withCors(await stub.fetch(request), corsOptions);
    },
  };
}

function namespaceOf(
  env: Readonly<Record<string, unknown>>,
  binding: string,
  className: string,
): AgentNamespace {
  const namespace = env[binding] ?? env[className];
  if (namespace instanceof AgentNamespace) return namespace;
  throw new TypeError(
    `${className}.serve: env has no agent binding ${binding}. Export ${className} from the module, or pass { binding }`,
  );
}

const hasSession = (request: Request): boolean => request.headers.has("mcp-session-id");

/** The name of the session's agent, or why there is none. */
async function streamableSession(request: Request): Promise<string | Response> {
  const known = request.headers.get("mcp-session-id");
  if (known !== null) return `streamable-http:${known}`;
  if (request.method !== "POST" || !(await isInitialize(request)))
    return refusal(400, "Bad Request: Mcp-Session-Id header is required");
  return `streamable-http:${crypto.randomUUID()}`;
}

function sseSession(request: Request, isMessage: boolean): string | Response {
  const known = new URL(request.url).searchParams.get("sessionId");
  if (isMessage)
    return request.method === "POST" && known !== null
      ? `sse:${known}`
      : refusal(400, "Bad Request: POST to the address that the stream's first event gave");
  return request.method === "GET"
    ? `sse:${crypto.randomUUID()}`
    : new Response("Method Not Allowed", { status: 405, headers: { allow: "GET" } });
}

/** Only this message begins a session; the agent refuses what is wrong with it otherwise. */
async function isInitialize(request: Request): Promise<boolean> {
  try {
    const body: unknown = await request.clone().json();
    const [first] = Array.isArray(body) ? (body as unknown[]) : [body];
    return (first as { readonly method?: unknown } | null)?.method === "initialize";
  } catch {
    return false;
  }
}

const refusal = (status: number, message: string): Response =>
  Response.json({ jsonrpc: "2.0", error: { code: BAD_REQUEST, message }, id: null }, { status });
