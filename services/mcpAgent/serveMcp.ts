/**
 * The route of a module to the sessions of an `McpAgent`: finds or begins the session, and passes
 * the request on to its agent. Runs in the gateway.
 */
import { AgentNamespace } from "../../core/namespace/AgentNamespace.ts";
import { authContextOf } from "../mcpHandler/authContext.ts";
import { preflight, withCors, type CORSOptions } from "../mcpHandler/cors.ts";
import { bytesOf, jsonOf, MESSAGE_BYTES_MAX, messageRefusal } from "../mcpHandler/messageBounds.ts";
import { pageRefusal } from "./pageRefusal.ts";
import { badRequest, methodNotAllowed, noSession, notJson } from "./refusals.ts";

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
  /**
   * Hostnames of pages that may call. Requests without `Origin` always may. Default: where this
   * machine is asked by a name of its own, its own pages and that of a concrete
   * `corsOptions.origin`; elsewhere all. `"*"`: all.
   */
  readonly allowedOriginHostnames?: ReadonlyArray<string> | "*";
  /** Accepted for apps written for the reference, and ignored. */
  readonly jurisdiction?: string;
}

/** A default export of a module, or a part of its `fetch`. */
export interface McpRoute {
  /** Resolves to 404 for another path. Rejects when `env` has no such binding. */
  fetch(this: void, request: Request, env: object, ctx?: unknown): Promise<Response>;
}

/** Marks a request that a route passed on. Gateways remove such headers from outside. */
const BY_ROUTE = "x-agents-mcp-session";

/** Whether a route has passed the request on. Removes the mark. */
export function isByRoute({ headers }: Request): boolean {
  const marked = headers.has(BY_ROUTE);
  headers.delete(BY_ROUTE);
  return marked;
}

const TRANSPORTS: ReadonlyArray<unknown> = ["streamable-http", "sse", "auto"];
/** Ids of sessions are made here, so another text begins no agent. */
const SESSION_ID = /^[\da-f]{8}-(?:[\da-f]{4}-){3}[\da-f]{12}$/;
/**
 * A client's name, its capabilities and a few icons. Each session stores them, and reads them again
 * when its agent starts; anybody may begin sessions.
 */
const INITIALIZE_BYTES_MAX = 64 * 1024;
const METHODS = "GET, POST, DELETE";
const NO_BYTES = new Uint8Array(0);

/** At `/` every path is the server's. Throws `TypeError` for a transport that there is not. */
export function serveMcp(path: string, className: string, options: ServeOptions): McpRoute {
  const { binding = "MCP_OBJECT", corsOptions, transport = "streamable-http" } = options;
  if (!TRANSPORTS.includes(transport))
    throw new TypeError(
      `${className}.serve: there is no transport ${JSON.stringify(transport)}. Use "streamable-http", "sse" or "auto"`,
    );
  const messages = `${path.replace(/\/$/, "")}/message`;
  // A stream announces an address below the path at which it was opened.
  const takesMessages = ({ pathname, searchParams }: URL): boolean =>
    pathname === messages ||
    (path === "/" && pathname.endsWith(messages) && searchParams.has("sessionId"));
  return {
    fetch: async (request, env, ctx) => {
      const url = new URL(request.url);
      const { pathname } = url;
      const isMessage = transport !== "streamable-http" && takesMessages(url);
      if (pathname !== path && path !== "/" && !isMessage)
        return new Response("Not Found", { status: 404 });
      if (request.method === "OPTIONS") return preflight(corsOptions);
      if (!METHODS.split(", ").includes(request.method))
        return withCors(methodNotAllowed(METHODS), corsOptions);
      const foreign = pageRefusal(request, options);
      if (foreign !== undefined) return withCors(foreign, corsOptions);
      const namespace = namespaceOf(env as Record<string, unknown>, binding, className);
      const isSse =
        transport === "sse" ||
        isMessage ||
        (transport === "auto" && request.method === "GET" && !hasSession(request));
      const bytes = request.method === "POST" ? await bytesOf(request) : NO_BYTES;
      const name =
        messageRefusal(bytes, MESSAGE_BYTES_MAX) ??
        (isSse ? sseSession(request, isMessage) : streamableSession(request, bytes));
      if (name instanceof Response) return withCors(name, corsOptions);
      const props = authContextOf(ctx)?.props;
      const stub = namespace.getByName(name, props === undefined ? {} : { props });
      const headers = new Headers(request.headers);
      headers.set(BY_ROUTE, "1");
      return withCors(await stub.fetch(request, { headers }), corsOptions);
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
function streamableSession(request: Request, bytes: Uint8Array): string | Response {
  const known = request.headers.get("mcp-session-id");
  if (known !== null) return SESSION_ID.test(known) ? `streamable-http:${known}` : noSession();
  if (request.method === "POST") {
    const body = jsonOf(bytes);
    if (body === undefined) return notJson();
    if (isInitialize(body))
      return (
        messageRefusal(bytes, INITIALIZE_BYTES_MAX) ?? `streamable-http:${crypto.randomUUID()}`
      );
  }
  return badRequest("Mcp-Session-Id header is required");
}

function sseSession(request: Request, isMessage: boolean): string | Response {
  if (!isMessage)
    return request.method === "GET" ? `sse:${crypto.randomUUID()}` : methodNotAllowed("GET");
  const known = new URL(request.url).searchParams.get("sessionId");
  if (request.method !== "POST" || known === null)
    return badRequest("POST to the address in the stream's first event");
  return SESSION_ID.test(known) ? `sse:${known}` : noSession();
}

/** Only this message begins a session; the agent refuses what is wrong with it otherwise. */
function isInitialize(body: unknown): boolean {
  const [first] = Array.isArray(body) ? (body as unknown[]) : [body];
  return (first as { readonly method?: unknown } | null | undefined)?.method === "initialize";
}
