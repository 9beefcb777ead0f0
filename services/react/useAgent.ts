/**
 * `useAgent`: a component's live connection to an agent (`protocol.md` §4.2). Reads like an `AgentClient`
 * and re-renders when what it shows changes. All that lasts is in `AgentSession`; this file says when.
 */
import { use, useEffect, useInsertionEffect, useMemo, useState, useSyncExternalStore } from "react";
import type { AgentClient, StateOf } from "../client/index.ts";
import { socketKey, type PathStep, type UseAgentOptions } from "./agentOptions.ts";
import { AgentSession, querySource } from "./AgentSession.ts";
import { QueryCache } from "./QueryCache.ts";

/** The client, with the address as a chain of agents. `call`, `setState` and `stub` outlive its socket. */
export type UseAgentResult<AgentT = unknown, State = StateOf<AgentT>> = Omit<
  AgentClient<AgentT, State>,
  "path"
> & {
  /** Root first, the agent itself last. */
  readonly path: ReadonlyArray<PathStep>;
  /** The socket's URL for `fetch`, its query included. */
  readonly getHttpUrl: () => string;
};

/** Of the page: see `QueryCache` for why no component can keep it. */
const queries = new QueryCache();

/**
 * Connects to an agent while the component is mounted. `useAgent<RepoAgent>(…)` types the state and the
 * methods, `useAgent<State>(…)` the state alone. Suspends once for an async `query`; throws what that
 * throws. A change of the address, query or socket options makes a new connection.
 */
export function useAgent<AgentT = unknown, State = StateOf<AgentT>>(
  options: UseAgentOptions<State>,
): UseAgentResult<AgentT, State> {
  const [session] = useState(() => new AgentSession<AgentT, State>(options, queries));
  suspendForQuery(session, options);
  const key = socketKey(options);
  // The key says all that a client is made of.
  const client = useMemo(() => session.make(options), [session, key]);
  useSyncExternalStore(session.subscribe, session.version, session.version);
  // Before any effect of anybody may call: they must reach this render's agent.
  useInsertionEffect(() => session.commit(client, options));
  useEffect(() => session.mounted(), [session]);
  const wanted = options.enabled !== false && options.startClosed !== true;
  useEffect(() => session.connect(client, wanted), [session, client, wanted]);
  return client as unknown as UseAgentResult<AgentT, State>;
}

/** What React reads as come already: for a render that has nothing to wait for. */
const SETTLED = Object.assign(Promise.resolve(), {
  status: "fulfilled" as const,
  value: undefined,
});

/**
 * Only for a query that this component does not run on yet: later ones the socket waits for. `use` is
 * called either way: React warns of a component that suspended by it and then comes without.
 */
function suspendForQuery<AgentT, State>(
  session: AgentSession<AgentT, State>,
  options: UseAgentOptions<State>,
): void {
  if (typeof options.query !== "function" || options.enabled === false) return;
  const source = querySource(options);
  if (session.queryKey === source.key) return void use(SETTLED);
  use(queries.get(source).promise);
}
