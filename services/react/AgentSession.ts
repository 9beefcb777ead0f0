/**
 * One component's standing with one agent, over renders and sockets: which client is live, what replaces
 * it, when it connects, and who is told of changes. Knows no React; `useAgent` calls it in this order:
 * `make` while rendering, `commit` before anybody's effects, `connect` and `mounted` in effects.
 *
 * 1. Rendering has no effects: a client made there is inert until `commit`.
 * 2. From `commit` on, every call goes to the new client; what waited at the old one moves or rejects.
 * 3. An unmount that is followed at once by a mount (React's strict mode) disturbs nothing.
 */
import { createStubProxy, type AgentCall, type AgentStub } from "../client/index.ts";
import { addressKey, cacheTtlMs, queryKey, type UseAgentOptions } from "./agentOptions.ts";
import { HookClient, type HookSession } from "./HookClient.ts";
import type { Query, QueryCache, QueryEntry, QuerySource } from "./QueryCache.ts";

/** setTimeout's own limit; past it, it fires at once. */
const TIMER_MS_MAX = 2 ** 31 - 1;

export class AgentSession<AgentT, State> implements HookSession<AgentT, State> {
  /** Of the latest committed render. */
  options: UseAgentOptions<State>;
  /** Stable over renders and sockets. */
  readonly call: AgentCall<AgentT>;
  readonly stub: AgentStub<AgentT>;
  /** Key of the async query whose result the live client runs on; undefined without one. */
  queryKey: string | undefined;
  readonly #queries: QueryCache;
  readonly #listeners = new Set<() => void>();
  #version = 0;
  #made: HookClient<AgentT, State> | undefined;
  #live: HookClient<AgentT, State> | undefined;
  #liveAddress = "";
  #connected: HookClient<AgentT, State> | undefined;
  #retired: HookClient<AgentT, State>[] = [];
  #mounted = false;
  #usedQuery: QueryEntry | undefined;
  #expiry: ReturnType<typeof setTimeout> | undefined;

  constructor(options: UseAgentOptions<State>, queries: QueryCache) {
    this.options = options;
    this.#queries = queries;
    const call = (...args: Parameters<AgentCall<unknown>>) =>
      (this.live(this.#made!).ownCall as AgentCall<unknown>)(...args);
    this.call = call as AgentCall<AgentT>;
    this.stub = createStubProxy<AgentStub<AgentT>>(call);
  }

  readonly subscribe = (listener: () => void): (() => void) => {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  };
  readonly version = (): number => this.#version;

  /** The client that calls go to; `or` before any was committed. */
  live(or: HookClient<AgentT, State>): HookClient<AgentT, State> {
    return this.#live ?? or;
  }

  /** Rule 1. */
  make(options: UseAgentOptions<State>): HookClient<AgentT, State> {
    const isAsync = typeof options.query === "function";
    const query = isAsync ? () => this.#nextQuery() : (options.query as Query | undefined);
    const client = new HookClient<AgentT, State>(this, options, query);
    const live = this.#live;
    if (live !== undefined && this.#liveAddress === addressKey(options)) client.showAs(live);
    this.#made = client;
    return client;
  }

  /** Rule 2. */
  commit(client: HookClient<AgentT, State>, options: UseAgentOptions<State>): void {
    this.options = options;
    const before = this.#live;
    const address = addressKey(options);
    const isAsync = typeof options.query === "function" && options.enabled !== false;
    this.queryKey = isAsync ? queryKey(options) : undefined;
    if (before === client) return;
    const sameAddress = address === this.#liveAddress;
    this.#live = client;
    this.#liveAddress = address;
    if (before === undefined) return;
    before.replaceBy(client, sameAddress);
    this.#retired.push(before);
  }

  connect(client: HookClient<AgentT, State>, wanted: boolean): void {
    for (const retired of this.#retired.splice(0)) retired.close();
    if (wanted && this.#connected !== client) {
      this.#connected = client;
      client.reconnect();
    } else if (!wanted && this.#connected === client) {
      this.#connected = undefined;
      clearTimeout(this.#expiry);
      client.rest();
    }
  }

  /** Gives the unmount. Rule 3. */
  mounted(): () => void {
    this.#mounted = true;
    return () => {
      this.#mounted = false;
      queueMicrotask(() => {
        if (this.#mounted) return;
        clearTimeout(this.#expiry);
        this.#connected?.close();
        this.#connected = undefined;
      });
    };
  }

  /** A client has changed what readers see. */
  changed(client: HookClient<AgentT, State>): void {
    if (client !== this.#live) return;
    this.#version += 1;
    for (const listener of this.#listeners) listener();
  }

  /** A lost connection may have been lost for its query: the next one asks anew. */
  closed(client: HookClient<AgentT, State>): void {
    if (client !== this.#live || !client.shouldReconnect) return;
    if (this.#usedQuery !== undefined && this.queryKey !== undefined)
      this.#queries.drop(this.queryKey, this.#usedQuery);
  }

  /** The socket waits here for its query, before each connection. */
  async #nextQuery(): Promise<Query> {
    const source = querySource(this.options);
    const entry = this.#queries.get(source);
    this.#usedQuery = entry;
    try {
      const query = await entry.promise;
      this.#watchExpiry(source, entry);
      return query;
    } catch (error) {
      // PartySocket tries again after its delay, and must not find the same failure.
      this.#queries.drop(source.key, entry);
      throw error;
    }
  }

  /** When the query's result has lived its time: asks again, and reconnects if it reads differently. */
  #watchExpiry(source: QuerySource, entry: QueryEntry): void {
    clearTimeout(this.#expiry);
    const leftMs = Math.min(Math.max(entry.expiresAtMs - Date.now(), 0), TIMER_MS_MAX);
    this.#expiry = setTimeout(() => void this.#refresh(source, entry), leftMs);
  }

  async #refresh(source: QuerySource, before: QueryEntry): Promise<void> {
    this.#queries.drop(source.key, before);
    const entry = this.#queries.get(source);
    const client = this.#connected;
    // A query that fails now leaves the connection as it is; the next connection asks again.
    const query = await entry.promise.catch(() => undefined);
    if (query === undefined) return this.#queries.drop(source.key, entry);
    if (client === undefined || client !== this.#connected || source.key !== this.queryKey) return;
    this.#usedQuery = entry;
    if (JSON.stringify(query) !== JSON.stringify(before.value)) client.reconnect();
    else this.#watchExpiry(source, entry);
  }
}

/** The async query of these options; they must have one. */
export function querySource<State>(options: UseAgentOptions<State>): QuerySource {
  const { query } = options;
  const fetch = typeof query === "function" ? query : () => query ?? {};
  return { key: queryKey(options), fetch, ttlMs: cacheTtlMs(options) };
}
