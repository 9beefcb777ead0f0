/**
 * `useAgent`: a component's live connection to an agent (`protocol.md` §4.2). Returns an
 * `AgentClient` and re-renders when its visible properties change. `AgentSession` has what outlives
 * a render; this file decides when its methods run.
 */
import { use, useEffect, useInsertionEffect, useMemo, useState, useSyncExternalStore } from "react";
import type { AgentClient, StateOf } from "../client/index.ts";
import { checkAddress, socketKey, type PathStep, type UseAgentOptions } from "./agentOptions.ts";
import { AgentSession, querySource } from "./AgentSession.ts";
import { QueryCache } from "./QueryCache.ts";

/** The client. Its `path` is a chain of agents; `call`, `setState`, `stub` outlive its socket. */
export type UseAgentResult<AgentT = unknown, State = StateOf<AgentT>> = Omit<
  AgentClient<AgentT, State>,
  "path"
> & {
  /** The agent's path: root first, the agent itself last. */
  readonly path: ReadonlyArray<PathStep>;
  /** The socket's URL for `fetch`, with its query. */
  readonly getHttpUrl: () => string;
};

/** One for the page; `QueryCache` explains why it is not part of a component. */
const queries = new QueryCache();

/**
 * Connects to an agent while the component is mounted. `useAgent<RepoAgent>(…)` types the state and
 * the methods, `useAgent<State>(…)` the state alone. Suspends once for an async `query`, and throws
 * its error. A change of the address, query or socket options opens a new connection. Throws
 * `TypeError` for options that name no agent or sub-agent, and for a `path` with a leading slash.
 */
export function useAgent<AgentT = unknown, State = StateOf<AgentT>>(
  options: UseAgentOptions<State>,
): UseAgentResult<AgentT, State> {
  checkAddress(options);
  const [session] = useState(() => new AgentSession<AgentT, State>(options, queries));
  suspendForQuery(session, options);
  const key = socketKey(options);
  // The key contains all options that determine a client.
  const client = useMemo(() => session.make(options), [session, key]);
  useSyncExternalStore(session.subscribe, session.version, session.version);
  // Runs before all effects, whose calls must reach this render's agent.
  useInsertionEffect(() => session.commit(client, options));
  useEffect(() => session.mounted(), [session]);
  const wanted = options.enabled !== false && options.startClosed !== true;
  useEffect(() => session.connect(client, wanted), [session, client, wanted]);
  return client as unknown as UseAgentResult<AgentT, State>;
}

/** A promise that React treats as settled, for a render that waits for nothing. */
const SETTLED = Object.assign(Promise.resolve(), {
  status: "fulfilled" as const,
  value: undefined,
});

/**
 * Suspends for the first query of this component only; later ones delay the socket, not the render.
 * `use` is always called, because React warns about a component that suspended with `use` and later
 * renders without it.
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
