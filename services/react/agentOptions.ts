/**
 * The options of `useAgent`, and the part of them that determines a socket. Two renders with equal
 * socket options share one socket. Waiting calls move to a new socket only if its address is equal.
 */
import { DEFAULT_NAME, type AgentAddress } from "../client/agentAddress.ts";
import type { AgentClientEvents, AgentClientOptions } from "../client/index.ts";
import { camelCaseToKebabCase } from "../../schemas/kebabCase.ts";
import type { Query } from "./QueryCache.ts";

/** One step of an address: an agent's class and name. */
export interface PathStep {
  /** Class of the agent, as `RepoAgent` or as `repo-agent`. */
  readonly agent: string;
  /** Name of the instance. */
  readonly name: string;
}

/** The agent's MCP servers with their tools, prompts and resources (`protocol.md` §2.1). */
export interface McpServersState {
  /** The servers by id. */
  readonly servers: Record<
    string,
    {
      readonly name: string;
      readonly server_url: string;
      readonly auth_url: string | null;
      readonly state:
        | "not-connected"
        | "authenticating"
        | "connecting"
        | "connected"
        | "discovering"
        | "ready"
        | "failed";
      readonly error: string | null;
      readonly instructions: string | null;
      readonly capabilities: Readonly<Record<string, unknown>> | null;
    }
  >;
  /** The tools of all servers. */
  readonly tools: Array<Offered & { readonly name: string; readonly inputSchema: Readonly<Record<string, unknown>> }>; // prettier-ignore
  /** The prompts of all servers. */
  readonly prompts: Array<Offered & { readonly name: string }>;
  /** The resources of all servers. */
  readonly resources: Array<Offered & { readonly name: string; readonly uri: string }>;
}
interface Offered {
  readonly serverId: string;
  readonly [field: string]: unknown;
}

/**
 * Options of `useAgent`: those of `AgentClient`, with `host` optional (default: the page's), and
 * more.
 */
export type UseAgentOptions<State = unknown> = Omit<
  AgentClientOptions<State>,
  "host" | "query" | keyof AgentAddress
> &
  AgentAddress & {
    /**
     * Parameters of the URL, or a function that is called before each connection. The component
     * suspends for its first result.
     */
    readonly query?: Query | (() => Promise<Query>) | undefined;
    /** Dependencies of an async query: a change runs it again. */
    readonly queryDeps?: ReadonlyArray<unknown> | undefined;
    /**
     * Milliseconds for which an async query's result is used; at least 1,000. Default 300,000 (5
     * minutes). With 0, the query runs again after a lost connection only.
     */
    readonly cacheTtl?: number | undefined;
    /** Whether the hook connects. Default true. */
    readonly enabled?: boolean | undefined;
    /** Sub-agents below the agent, root first; the hook connects to the last. Default: none. */
    readonly sub?: ReadonlyArray<PathStep> | undefined;
    /** Called with the agent's MCP servers, on each connection and change. */
    readonly onMcpUpdate?: ((mcp: McpServersState) => void) | undefined;
    /** Called when a socket opens. */
    readonly onOpen?: ((event: Event) => void) | undefined;
    /** Called with each message that is not a protocol frame. */
    readonly onMessage?: ((event: MessageEvent) => void) | undefined;
    /** Called when a socket closes. */
    readonly onClose?: ((event: CloseEvent) => void) | undefined;
    /** Called on an error of a socket. */
    readonly onError?: ((event: Event) => void) | undefined;
  };

const ADDRESS_OPTIONS = ["agent", "name", "host", "prefix", "basePath", "path", "sub"] as const;
const SOCKET_OPTIONS = [
  ...ADDRESS_OPTIONS,
  "protocol",
  "protocols",
  "id",
  "minUptime",
  "maxRetries",
  "connectionTimeout",
  "maxEnqueuedMessages",
  "maxReconnectionDelay",
  "minReconnectionDelay",
  "reconnectionDelayGrowFactor",
  "debug",
] as const;
/** Passed to the socket. A change opens no new one: functions can't be compared. */
const CARRIED_OPTIONS = ["WebSocket", "debugLogger", "disableNameValidation"] as const;

/** The host when rendering on a server, where nothing connects. */
const NO_HOST = "server-side.invalid";
/** Five minutes, as in the reference. */
const CACHE_TTL_MS_DEFAULT = 5 * 60 * 1000;

/** Options of any state type: this file does not call the callbacks. */
type Options = UseAgentOptions<never>;

/** The options of the socket itself. */
type SocketOptions = Omit<AgentClientOptions, keyof AgentClientEvents<unknown> | "query">;

const pick = (options: Options, names: ReadonlyArray<string>): ReadonlyArray<unknown> =>
  names.map((name) => (options as unknown as Readonly<Record<string, unknown>>)[name]);

/** Equal for options with the same address. */
export const addressKey = (options: Options): string =>
  JSON.stringify(pick(options, ADDRESS_OPTIONS));

/** Equal for options that share a socket. Of an async query only the key counts. */
export function socketKey(options: Options): string {
  const query = typeof options.query === "function" ? queryKey(options) : options.query;
  return JSON.stringify([...pick(options, SOCKET_OPTIONS), query]);
}

/** Equal for async queries that share a result. */
export const queryKey = ({ agent, name, sub, queryDeps }: Options): string =>
  JSON.stringify([camelCaseToKebabCase(agent), name ?? DEFAULT_NAME, sub ?? [], queryDeps ?? []]);

/** Time to live of an async query's result, in milliseconds. */
export const cacheTtlMs = ({ cacheTtl }: Options): number => cacheTtl ?? CACHE_TTL_MS_DEFAULT;

/** The agent and its sub-agents, root first, as in the options. */
export const chainOf = ({ agent, name, sub }: Options): ReadonlyArray<PathStep> => [
  { agent, name: name ?? DEFAULT_NAME },
  ...(sub ?? []),
];

const isText = (value: unknown): boolean => typeof value === "string" && value !== "";

/** True for a step with an agent and a name. JavaScript can pass anything. */
function isStep(step: unknown): boolean {
  const { agent, name } = (step ?? {}) as Partial<PathStep>;
  return isText(agent) && isText(name);
}

/**
 * Throws `TypeError` for options that name no agent or sub-agent. A sub-agent without a name would
 * be one that is called `undefined`.
 */
export function checkAddress({ agent, sub = [] }: Options): void {
  if (!isText(agent))
    throw new TypeError('useAgent: "agent" is missing: the class of the agent, e.g. "repo-agent"');
  if (!Array.isArray(sub) || !sub.every(isStep))
    throw new TypeError(
      "useAgent: sub must be a list of { agent, name }, both of them text that is not empty",
    );
}

/** The socket's options. Throws `TypeError` for a path with a leading slash. */
export function socketOptions(options: Options): SocketOptions {
  const { sub = [], path } = options;
  if (path?.startsWith("/")) throw new TypeError("useAgent: path must not start with a slash");
  // Only sub-agents' names are escaped, since the server decodes only those.
  const below = sub.flatMap(({ agent, name }) => [
    "sub",
    camelCaseToKebabCase(agent),
    encodeURIComponent(name),
  ]);
  const names = [...SOCKET_OPTIONS, ...CARRIED_OPTIONS].filter(
    (name) => name !== "sub" && name !== "path",
  );
  const given = pick(options, names)
    .map((value, index) => [names[index]!, value] as const)
    .filter(([, value]) => value !== undefined);
  const fullPath = [...below, ...(path ? [path] : [])].join("/");
  return {
    ...(Object.fromEntries(given) as SocketOptions),
    host: options.host ?? (typeof window === "undefined" ? NO_HOST : window.location.host),
    ...(fullPath === "" ? {} : { path: fullPath }),
    startClosed: true,
  };
}
