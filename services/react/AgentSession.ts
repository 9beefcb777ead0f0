/**
 * One component's connection to one agent across renders and sockets: which client is live, what
 * replaces it, when it connects, and whom it notifies. Independent of React. `useAgent` calls
 * `make` while rendering, `commit` before any effects, and `connect` and `mounted` in effects.
 *
 * 1. Rendering has no effects: a client created while rendering is inert until `commit`.
 * 2. From `commit` on, every call goes to the new client. Waiting work of the old one moves or
 *    rejects.
 * 3. A query runs again when its result expires, and after a lost connection. The reconnect for a
 *    new result uses that result.
 * 4. An unmount that is followed at once by a mount (React's strict mode) keeps the connection.
 */
import { createStubProxy, type AgentCall, type AgentStub } from "../client/index.ts";
import { addressKey, cacheTtlMs, queryKey, type UseAgentOptions } from "./agentOptions.ts";
import { HookClient, type HookSession } from "./HookClient.ts";
import type { Query, QueryCache, QueryEntry, QuerySource } from "./QueryCache.ts";

/** The limit of `setTimeout`; a longer delay fires at once. */
const TIMER_MS_MAX = 2 ** 31 - 1;

/** The session of one component. */
export class AgentSession<AgentT, State> implements HookSession<AgentT, State> {
  /** The options of the latest committed render. */
  options: UseAgentOptions<State>;
  /** The same function across renders and sockets. */
  readonly call: AgentCall<AgentT>;
  readonly stub: AgentStub<AgentT>;
  /** Key of the live client's async query, or undefined. */
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
  /** The live client reconnects for a new result of its query. */
  #renewing = false;

  constructor(options: UseAgentOptions<State>, queries: QueryCache) {
    this.options = options;
    this.#queries = queries;
    const call = (...args: Parameters<AgentCall<unknown>>) =>
      (this.live(this.#made!).ownCall as AgentCall<unknown>)(...args);
    this.call = call as AgentCall<AgentT>;
    this.stub = createStubProxy<AgentStub<AgentT>>(call);
  }

  /** Calls `listener` after each visible change. Returns a function that unsubscribes it. */
  readonly subscribe = (listener: () => void): (() => void) => {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  };
  /** Increases with each visible change. */
  readonly version = (): number => this.#version;

  /** The client that receives calls; `or` before the first commit. */
  live(or: HookClient<AgentT, State>): HookClient<AgentT, State> {
    return this.#live ?? or;
  }

  /** Creates an inert client for a render (rule 1). */
  make(options: UseAgentOptions<State>): HookClient<AgentT, State> {
    const isAsync = typeof options.query === "function";
    const query = isAsync ? () => this.#nextQuery(client) : (options.query as Query | undefined);
    const client: HookClient<AgentT, State> = new HookClient(this, options, query);
    const live = this.#live;
    if (live !== undefined && this.#liveAddress === addressKey(options)) client.showAs(live);
    this.#made = client;
    return client;
  }

  /** Makes a client the live one (rule 2). */
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

  /** Connects or pauses the client, as wanted, and closes replaced ones. */
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

  /** Returns the function to call on unmount. Rule 4. */
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

  /** A client's visible properties have changed. */
  changed(client: HookClient<AgentT, State>): void {
    if (client !== this.#live) return;
    this.#version += 1;
    for (const listener of this.#listeners) listener();
  }

  /**
   * A connection was lost, possibly because of its query: the next connection queries again (rule
   * 3). The result that it had expires without effect: a reconnect would begin the pauses anew.
   */
  closed(client: HookClient<AgentT, State>): void {
    if (client !== this.#live || !client.shouldReconnect || this.#renewing) return;
    clearTimeout(this.#expiry);
    if (this.#usedQuery !== undefined && this.queryKey !== undefined)
      this.#queries.drop(this.queryKey, this.#usedQuery);
  }

  /** The socket awaits this before each connection. */
  async #nextQuery(client: HookClient<AgentT, State>): Promise<Query> {
    const source = querySource(this.options);
    const entry = this.#queries.get(source);
    this.#usedQuery = entry;
    try {
      const query = await entry.promise;
      // An unmounted or replaced client connects no more.
      if (client === this.#connected) this.#watchExpiry(source, entry);
      return query;
    } catch (error) {
      // PartySocket retries after its delay, and must not receive the same failure again.
      this.#queries.drop(source.key, entry);
      throw error;
    }
  }

  /**
   * When the query's result expires, queries again, and reconnects if the result differs. Without a
   * time to live, only a lost connection makes it run again.
   */
  #watchExpiry(source: QuerySource, entry: QueryEntry): void {
    clearTimeout(this.#expiry);
    if (source.ttlMs <= 0) return;
    const leftMs = Math.min(Math.max(entry.expiresAtMs - Date.now(), 0), TIMER_MS_MAX);
    this.#expiry = setTimeout(() => void this.#refresh(source, entry), leftMs);
  }

  async #refresh(source: QuerySource, before: QueryEntry): Promise<void> {
    this.#queries.drop(source.key, before);
    const entry = this.#queries.get(source);
    const client = this.#connected;
    // A query that fails here leaves the connection open; the next connection queries again.
    const query = await entry.promise.catch(() => undefined);
    if (query === undefined) return this.#queries.drop(source.key, entry);
    if (client === undefined || client !== this.#connected || source.key !== this.queryKey) return;
    this.#usedQuery = entry;
    if (JSON.stringify(query) !== JSON.stringify(before.value)) this.#renew(client);
    else this.#watchExpiry(source, entry);
  }

  /** Rule 3: the old connection closes within `reconnect`. */
  #renew(client: HookClient<AgentT, State>): void {
    this.#renewing = true;
    try {
      client.reconnect();
    } finally {
      this.#renewing = false;
    }
  }
}

/** The async query of options that have one. */
export function querySource<State>(options: UseAgentOptions<State>): QuerySource {
  const { query } = options;
  const fetch = typeof query === "function" ? query : () => query ?? {};
  return { key: queryKey(options), fetch, ttlMs: cacheTtlMs(options) };
}
