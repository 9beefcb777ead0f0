/**
 * What `useAgent` takes, and what of it makes a socket: two renders whose socket options read alike share
 * one socket; the address among them says whether what waits may move to a new one.
 */
import type { AgentAddress } from "../client/agentAddress.ts";
import type { AgentClientEvents, AgentClientOptions } from "../client/index.ts";
import { camelCaseToKebabCase } from "../../schemas/kebabCase.ts";
import { DEFAULT_NAME } from "../client/agentAddress.ts";
import type { Query } from "./QueryCache.ts";

/** One step of an address: an agent's class and name. */
export interface PathStep {
  readonly agent: string;
  readonly name: string;
}

/** The agent's MCP servers and what they offer (`protocol.md` §2.1). */
export interface McpServersState {
  readonly servers: Readonly<
    Record<
      string,
      {
        readonly name: string;
        readonly server_url: string;
        readonly auth_url: string | null;
        readonly state: string;
        readonly error: string | null;
        readonly instructions: string | null;
        readonly capabilities: unknown;
      }
    >
  >;
  readonly tools: ReadonlyArray<{ readonly serverId: string; readonly name: string }>;
  readonly prompts: ReadonlyArray<{ readonly serverId: string; readonly name: string }>;
  readonly resources: ReadonlyArray<{ readonly serverId: string; readonly uri: string }>;
}

export type UseAgentOptions<State = unknown> = Omit<
  AgentClientOptions<State>,
  "host" | "query" | keyof AgentAddress
> &
  AgentAddress & {
    /** An object; or a function asked before each connection, for which the component suspends once. */
    readonly query?: Query | (() => Promise<Query>) | undefined;
    /** What an async query depends on: a change asks it again. */
    readonly queryDeps?: ReadonlyArray<unknown> | undefined;
    /** Milliseconds for which an async query's result is good; default 5 minutes. */
    readonly cacheTtl?: number | undefined;
    /** False: not connected. Default true. */
    readonly enabled?: boolean | undefined;
    /** Sub-agents below the agent, root first; the hook talks to the last. */
    readonly sub?: ReadonlyArray<PathStep> | undefined;
    readonly onMcpUpdate?: ((mcp: McpServersState) => void) | undefined;
    readonly onOpen?: ((event: Event) => void) | undefined;
    /** Messages of the application: what the protocol did not take for itself. */
    readonly onMessage?: ((event: MessageEvent) => void) | undefined;
    readonly onClose?: ((event: CloseEvent) => void) | undefined;
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
/** Handed to the socket too, but no reason for a new one: they can't be compared by what they say. */
const CARRIED_OPTIONS = ["WebSocket", "debugLogger", "disableNameValidation"] as const;

/** Stands for a host while rendering on a server, where nothing ever connects. */
const NO_HOST = "server-side.invalid";
/** Five minutes, as in the reference. */
const CACHE_TTL_MS_DEFAULT = 5 * 60 * 1000;

/** Of any state: nothing here looks at the callbacks. */
type Options = UseAgentOptions<never>;

/** What the socket itself is made with. */
export type SocketOptions = Omit<AgentClientOptions, keyof AgentClientEvents<unknown> | "query">;

const pick = (options: Options, names: ReadonlyArray<string>): ReadonlyArray<unknown> =>
  names.map((name) => (options as unknown as Readonly<Record<string, unknown>>)[name]);

/** Equal for options that reach the same agent at the same place. */
export const addressKey = (options: Options): string =>
  JSON.stringify(pick(options, ADDRESS_OPTIONS));

/** Equal for options that one socket serves. An async query is asked per connection: no part of it. */
export function socketKey(options: Options): string {
  const query = typeof options.query === "function" ? queryKey(options) : options.query;
  return JSON.stringify([...pick(options, SOCKET_OPTIONS), query]);
}

/** Equal for async queries that share their results. */
export const queryKey = ({ agent, name, sub, queryDeps }: Options): string =>
  JSON.stringify([camelCaseToKebabCase(agent), name ?? DEFAULT_NAME, sub ?? [], queryDeps ?? []]);

export const cacheTtlMs = ({ cacheTtl }: Options): number => cacheTtl ?? CACHE_TTL_MS_DEFAULT;

/** The agent and the sub-agents below it, root first, as asked for. */
export const chainOf = ({ agent, name, sub }: Options): ReadonlyArray<PathStep> => [
  { agent, name: name ?? DEFAULT_NAME },
  ...(sub ?? []),
];

/** Throws `TypeError` for a path with a leading slash. */
export function socketOptions(options: Options): SocketOptions {
  const { sub = [], path } = options;
  if (path?.startsWith("/")) throw new TypeError("useAgent: path must not start with a slash");
  // Sub-agents' names are escaped: the server decodes those, and only those.
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
