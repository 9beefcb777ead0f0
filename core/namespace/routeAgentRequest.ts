/**
 * `routeAgentRequest`: routes `/{prefix}/{agent}/{name}[/…]` to the agent that it names
 * (`protocol.md` §1), for a module's `fetch`. The response to a WebSocket upgrade has the socket,
 * which the gateway connects to the client when the module returns the response.
 */
import { camelCaseToKebabCase } from "../../schemas/Address.ts";
import { refuseMisspelt } from "../errors/checkOptions.ts";
import { AgentNamespace } from "./AgentNamespace.ts";
import { isUpgrade } from "../socket/upgradeRequest.ts";

/** Options of `routeAgentRequest`. */
export interface RouteOptions {
  /** First segments of the path, without a leading slash. Default `agents`. */
  readonly prefix?: string;
  /**
   * `true` adds CORS headers for every origin, and answers OPTIONS. Other headers can be given
   * instead. Default: none.
   */
  readonly cors?: boolean | HeadersInit;
  /** Passed to `onStart` when the request starts the agent. JSON. */
  readonly props?: unknown;
  /** Accepted for apps written for the reference, and ignored. */
  readonly locationHint?: string;
  /** Accepted for apps written for the reference, and ignored. */
  readonly jurisdiction?: string;
  /** Accepted for apps written for the reference, and ignored. */
  readonly routingRetry?: unknown;
  /** Called before a WebSocket upgrade. */
  readonly onBeforeConnect?: RouteHook;
  /** Called before any other request. */
  readonly onBeforeRequest?: RouteHook;
}

const OPTIONS: ReadonlySet<string> = new Set<keyof RouteOptions>([
  "prefix", "cors", "props", "locationHint", "jurisdiction", "routingRetry", "onBeforeConnect",
  "onBeforeRequest",
]); // prettier-ignore

/** May return a Response to answer in the agent's place, or a Request to use instead. */
export type RouteHook = (
  request: Request,
  route: { readonly className: string; readonly name: string },
) => Response | Request | void | Promise<Response | Request | void>;

/** The third argument of a module's `fetch`. */
export interface FetchContext {
  /** Delays the process's end until `promise` settles, up to 10 s. A rejection is logged. */
  readonly waitUntil: (promise: Promise<unknown>) => void;
  /** Accepted for modules of other runtimes, and ignored: there is no origin to pass through to. */
  readonly passThroughOnException: () => void;
  /** Empty. A module's own authentication may put the caller here, for an MCP server's tools. */
  props: Record<string, unknown>;
  /**
   * Routes as in a module without a `fetch`: refuses unsigned requests to a class with signed
   * webhooks, and pages of other origins where these are checked (`docs/guides/access.md`).
   * Resolves to null if the path names no agent.
   */
  readonly routeAgentRequest: (request: Request) => Promise<Response | null>;
}

const CORS: Readonly<Record<string, string>> = {
  "access-control-allow-origin": "*",
  "access-control-allow-methods": "GET, POST, HEAD, OPTIONS",
  "access-control-allow-headers": "*",
  "access-control-max-age": "86400",
};

interface AgentRoute {
  readonly namespace: AgentNamespace;
  /** The name of the binding. */
  readonly className: string;
  /** As in the URL, not decoded. */
  readonly name: string;
}

/**
 * Resolves to the response of the agent that the URL names, to 400 for an unknown agent class, and
 * to null if the path has another prefix or too few segments. Rejects with `AgentUnreachable` and
 * `InvalidAddress`, and with `TypeError` for a misspelt option.
 */
export async function routeAgentRequest(
  request: Request,
  env: unknown,
  options: RouteOptions = {},
): Promise<Response | null> {
  // A misspelt hook would check nobody.
  refuseMisspelt("routeAgentRequest", options, OPTIONS);
  const match = matchAgentPath(new URL(request.url).pathname, env, options.prefix);
  if (match === undefined) return null;
  if (match === "unknown") return new Response("Invalid request", { status: 400 });
  const upgrade = isUpgrade(request);
  const cors = upgrade ? undefined : corsHeaders(options.cors);
  if (request.method === "OPTIONS" && cors !== undefined)
    return new Response(null, { status: 200, headers: cors });
  const { className, name, namespace } = match;
  const hook = upgrade ? options.onBeforeConnect : options.onBeforeRequest;
  const instead = await hook?.(request, { className, name });
  if (instead instanceof Response) return withHeaders(instead, cors);
  const forwarded = instead instanceof Request ? instead : request;
  const stub = namespace.getByName(
    name,
    options.props === undefined ? {} : { props: options.props },
  );
  const response = await stub.fetch(forwarded);
  // Changed in place: nothing else uses a stub's response, and a copy's body would have to be
  // streamed.
  if (cors !== undefined) setHeaders(response.headers, cors);
  return response;
}

/** The route of a path; undefined if it has too few segments or another prefix. */
export function matchAgentPath(
  pathname: string,
  env: unknown,
  prefix = "agents",
): AgentRoute | "unknown" | undefined {
  const segments = pathname.split("/").filter((segment) => segment !== "");
  const before = prefix.split("/").filter((segment) => segment !== "");
  if (segments.length < before.length + 2) return undefined;
  if (before.some((segment, i) => segments[i] !== segment)) return undefined;
  const agent = segments[before.length]!;
  const name = segments[before.length + 1]!;
  for (const [className, namespace] of Object.entries((env ?? {}) as Record<string, unknown>))
    if (namespace instanceof AgentNamespace && camelCaseToKebabCase(className) === agent)
      return { namespace, className, name };
  return "unknown";
}

/** The classes as they are named in paths. */
export const pathClasses = (env: unknown): ReadonlyArray<string> => [
  ...new Set(
    Object.entries((env ?? {}) as Record<string, unknown>)
      .filter(([, namespace]) => namespace instanceof AgentNamespace)
      .map(([className]) => camelCaseToKebabCase(className)),
  ),
];

const corsHeaders = (cors: RouteOptions["cors"]): HeadersInit | undefined =>
  cors === true ? CORS : cors === false ? undefined : cors;

function setHeaders(headers: Headers, extra: HeadersInit): void {
  for (const [name, value] of new Headers(extra)) headers.set(name, value);
}

function withHeaders(response: Response, extra: HeadersInit | undefined): Response {
  if (extra === undefined) return response;
  const headers = new Headers(response.headers);
  setHeaders(headers, extra);
  return new Response(response.body, { status: response.status, headers });
}
