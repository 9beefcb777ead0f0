/**
 * `createMcpHandler`: an MCP server without sessions, on the official SDK's handler. Each request
 * has a server of its own, which the app's factory makes; what has to last is kept in agents, which
 * the tools call. Adds what a module's `fetch` needs: the route, CORS, and the checks of `Host` and
 * `Origin` that keep pages of other sites away.
 */
import {
  createMcpHandler as createSdkHandler,
  hostHeaderValidationResponse,
  localhostAllowedHostnames,
  localhostAllowedOrigins,
  originValidationResponse,
  type AuthInfo,
  type CreateMcpHandlerOptions as SdkOptions,
  type McpHandlerRequestOptions,
  type McpServerFactory,
  type ServerNotifier,
} from "@modelcontextprotocol/server";
import { authContextOf, isRecord, withAuthContext, type McpAuthContext } from "./authContext.ts";
import { preflight, withCors, type CORSOptions } from "./cors.ts";
import { bytesOf, messageRefusal } from "./messageBounds.ts";

/** Options of `createMcpHandler`; those of the SDK's handler but `bus` are passed on to it. */
export interface CreateMcpHandlerOptions extends Omit<SdkOptions, "bus"> {
  /** The path that is answered; others are 404. Default `/mcp`. */
  readonly route?: string;
  /** CORS headers of every response. `false`: none. */
  readonly corsOptions?: CORSOptions | false;
  /** Names that `Host` may have. Default: any, and only this machine's names where one is asked. */
  readonly allowedHostnames?: string[];
  /**
   * Hostnames of pages that may call. Requests without `Origin` always may. Default: this
   * machine's, and that of a concrete `corsOptions.origin`. `"*"`: any, where something in front
   * checks it.
   */
  readonly allowedOriginHostnames?: string[] | "*";
  /** What `getMcpAuthContext` returns in tools. Default: `ctx.props` of the request. */
  readonly authContext?: McpAuthContext;
}

/** Call it in a module's `fetch`. */
export interface McpHandler {
  /** Resolves to the answer, 404 for another path. */
  (request: Request, env?: unknown, ctx?: unknown): Promise<Response>;
  /** The same for callers that authenticate by themselves. */
  fetch(request: Request, options?: McpHandlerRequestOptions): Promise<Response>;
  /** Notifies the subscribers of this process of changed lists and resources. */
  readonly notify: ServerNotifier;
}

/** Throws `TypeError` for an option that it does not take. */
export function createMcpHandler(
  factory: McpServerFactory,
  options: CreateMcpHandlerOptions = {},
): McpHandler {
  const { route = "/mcp", corsOptions, allowedHostnames, allowedOriginHostnames, authContext, ...sdkOptions } = options; // prettier-ignore
  if (typeof factory !== "function")
    throw new TypeError(
      "createMcpHandler takes a function that creates a server, not a server: concurrent requests can't share one",
    );
  if ("bus" in sdkOptions)
    throw new TypeError("createMcpHandler has no option bus: use the handler's notify");
  const sdk = createSdkHandler(factory, sdkOptions);
  const isCors = corsOptions !== false;
  const cors = corsOptions === false ? undefined : corsOptions;
  const guarded = async (request: Request, given: McpHandlerRequestOptions): Promise<Response> => {
    if (new URL(request.url).pathname !== route) return new Response("Not Found", { status: 404 });
    if (request.method === "OPTIONS" && isCors) return preflight(cors);
    const answer =
      refusalOf(request, { cors, allowedHostnames, allowedOriginHostnames }) ??
      // The SDK bounds the size.
      (request.method === "POST" ? messageRefusal(await bytesOf(request)) : undefined) ??
      (await sdk.fetch(request, given));
    return isCors ? withCors(answer, cors) : answer;
  };
  const handler = (request: Request, _env?: unknown, ctx?: unknown): Promise<Response> => {
    const authInfo = authInfoOf(request, ctx);
    return withAuthContext(authContext ?? authContextOf(ctx), () =>
      guarded(request, authInfo === undefined ? {} : { authInfo }),
    );
  };
  return Object.assign(handler, {
    fetch: (request: Request, given: McpHandlerRequestOptions = {}) =>
      withAuthContext(authContext, () => guarded(request, given)),
    notify: sdk.notify,
  });
}

interface Allowed {
  readonly cors: CORSOptions | undefined;
  readonly allowedHostnames: string[] | undefined;
  readonly allowedOriginHostnames: string[] | "*" | undefined;
}

/** A page of another site may have this machine's address under a name of its own. */
function refusalOf(request: Request, allowed: Allowed): Response | undefined {
  const { hostname } = new URL(request.url);
  const isHere = localhostAllowedHostnames().includes(hostname);
  const hosts = allowed.allowedHostnames ?? (isHere ? localhostAllowedHostnames() : undefined);
  const byHost = hosts === undefined ? undefined : hostHeaderValidationResponse(request, hosts);
  if (byHost !== undefined || allowed.allowedOriginHostnames === "*") return byHost;
  const origin = allowed.cors?.origin;
  const origins = allowed.allowedOriginHostnames ?? [
    ...localhostAllowedOrigins(),
    ...(origin !== undefined && URL.canParse(origin) ? [new URL(origin).hostname] : []),
  ];
  return originValidationResponse(request, origins);
}

/** The token that the layer in front has verified; undefined unless it names a client. */
function authInfoOf(request: Request, ctx: unknown): AuthInfo | undefined {
  const { auth, props } = (ctx ?? {}) as { readonly auth?: unknown; readonly props?: unknown };
  if (!isRecord(auth) || typeof auth["clientId"] !== "string" || !isRecord(props)) return undefined;
  const scope = auth["scope"];
  return {
    token: request.headers.get("authorization")?.replace(/^Bearer\s+/i, "") ?? "",
    clientId: auth["clientId"],
    scopes: Array.isArray(scope) ? scope.filter((each) => typeof each === "string") : [],
    extra: { props },
  };
}
