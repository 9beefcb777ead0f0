/**
 * The class that users extend: one instance per name, with state, SQL, clients and hooks
 * (`interface.md` §2.1, §4.3, §6.2). The runtime behind `ctx` does everything durable.
 */
import { ownName } from "../../schemas/AgentPath.ts";
import type { LogShape } from "../telemetry/Log.ts";
import { logCodeError } from "./logCodeError.ts";
import type { CallableMetadata } from "./callable.ts";
import { runtimeOf, type AgentContext } from "./AgentContext.ts";
import type { AgentRuntime } from "./AgentRuntime.ts";
import { toObject, toSqlValue, type SqlParameter, type SqlRow } from "../database/AgentStorage.ts";
import { Connection, type ConnectionMessage } from "../connection/Connection.ts";
import { ReadonlyConnection, SqlError } from "../errors/errors.ts";
import type { AgentStaticOptions } from "./AgentStaticOptions.ts";
import { AgentSubAgents, FAMILY } from "./AgentSubAgents.ts";
import { callableMethods } from "./methods.ts";
import type { Observability } from "../telemetry/observability.ts";
import { stateHookOf } from "./stateHook.ts";

/** Marks agent classes, so that loaders recognise them without importing this file. */
export const AGENT_MARK = Symbol.for("agents.Agent");

/** The origin of a state change: a client's connection, or the agent's own code. */
export type StateSource = Connection | "server";

/** The second argument of `onConnect` and of the hooks that decide about a new connection. */
export interface ConnectionContext {
  /** The upgrade request. */
  readonly request: Request;
}

/**
 * Stands for an `initialState` that the class does not set: `undefined` is a value it could set.
 */
const UNSET: unknown = Symbol("initialState not set");

/**
 * Extend it and export the class from the module: one durable agent per name. `Env` is the type of
 * the bindings, `State` that of the state, `Props` that of what `onStart` receives. Agents are
 * constructed by the runtime; `new` throws a `TypeError`.
 */
export class Agent<
  Env = Record<string, unknown>,
  State = unknown,
  Props extends Record<string, unknown> = Record<string, unknown>,
> extends AgentSubAgents {
  static readonly [AGENT_MARK] = true;
  /** Options of the class. Override it in a subclass. */
  static options: AgentStaticOptions = {};

  /** The bindings and variables of the installation: agent classes, workflows, `EMAIL`, secrets. */
  override readonly env: Env;
  /**
   * The state of an agent whose state was never set. Override it in a subclass. Default:
   * `undefined`.
   */
  initialState: State = UNSET as State;
  /** Receives the agent's events; `undefined` emits none. Default: Node's diagnostics channels. */
  observability: Observability | undefined;
  readonly #runtime: AgentRuntime;

  constructor(ctx: AgentContext, env: Env) {
    super(ctx);
    this.env = env;
    this.#runtime = runtimeOf(ctx);
    this.observability = this.#runtime.observability;
    stateHookOf(this, Agent.prototype, this.#runtime.log);
  }

  /**
   * The name that this instance is addressed by; of a sub-agent, its own name without its parent's.
   */
  get name(): string {
    return ownName(this.#runtime.id);
  }

  /** The agent's log. Its lines carry the agent's class and name. */
  get log(): LogShape {
    return this.#runtime.log;
  }

  /**
   * The current state. Only `setState` changes it. The first read of an agent without a state sets
   * it to `initialState` where the class has one; otherwise the state is `undefined`. While an
   * agent has stored nothing, its initial state is not stored either: it is stored with the first
   * write, and until then each start sets it again. The first read throws what
   * `validateStateChange` throws for the initial state.
   */
  get state(): State {
    if (!this.#runtime.hasState && this.initialState !== UNSET)
      this.#change(this.initialState, "server", {
        except: this.#runtime.currentConnection(),
        isInitial: true,
      });
    return this.#runtime.state as State;
  }

  /**
   * Replaces the state: calls `validateStateChange`, persists the state, sends it to every client
   * and calls `onStateChanged`. Throws what the validator throws, `ReadonlyConnection` in the
   * context of a readonly connection, `TypeError` for a value that JSON cannot represent, and
   * `StateTooLarge` or `JournalRateExceeded` past a limit of `AgentStaticOptions`. When it throws,
   * nothing has changed.
   */
  setState(state: State): void {
    const connection = this.#runtime.currentConnection();
    if (connection !== undefined && this.isConnectionReadonly(connection))
      throw new ReadonlyConnection();
    this.#change(state, "server");
  }

  /**
   * Runs SQL on the agent's own SQLite database. Each `${value}` is bound as a parameter; a boolean
   * is stored as 0 or 1, `undefined` as NULL. Returns the rows as objects, empty for a statement
   * without rows; of two columns with one name the last one counts. `SqlColumnValue` says how
   * values come back. Throws `SqlError`, whose `cause` is SQLite's own error or `CommitTooLarge`.
   */
  sql<Row = SqlRow>(strings: TemplateStringsArray, ...values: SqlParameter[]): Row[] {
    const query = strings.join("?");
    try {
      const { columns, rows } = this.#runtime.query(query, values.map(toSqlValue), true);
      return rows.map((row) => toObject(columns, row) as Row);
    } catch (cause) {
      throw new SqlError(query, cause);
    }
  }

  /** The open connections: all, or those with this tag. */
  *getConnections<TState = unknown>(tag?: string): Iterable<Connection<TState>> {
    for (const connection of this.#runtime.connections())
      if (tag === undefined || connection.tags.includes(tag))
        yield connection as Connection<TState>;
  }

  /**
   * The open connection with this id; undefined without one. Throws an `Error` when several sockets
   * share the id.
   */
  getConnection<TState = unknown>(id: string): Connection<TState> | undefined {
    const found = [...this.#runtime.connections()].filter((c) => c.id === id);
    if (found.length > 1) throw new Error(`More than one connection has the id "${id}"`);
    return found[0] as Connection<TState> | undefined;
  }

  /** Sends a raw message to every client, except to connections whose id is in `without`. */
  broadcast(message: ConnectionMessage, without: ReadonlyArray<string> = []): void {
    this.#runtime.broadcast(message, without);
  }

  /**
   * Makes a connection readonly, or lets it write again: the state changes of a readonly one are
   * refused.
   */
  setConnectionReadonly(connection: Connection, readonly = true): void {
    Connection.internals(connection).readonly = readonly;
    this.#runtime.attach(connection);
  }

  /** Whether state changes of this connection are refused. */
  isConnectionReadonly(connection: Connection): boolean {
    return Connection.internals(connection).readonly;
  }

  /**
   * Whether the connection receives the protocol's frames (identity, state, MCP servers).
   * `shouldSendProtocolMessages` decided this when it connected.
   */
  isConnectionProtocolEnabled(connection: Connection): boolean {
    return Connection.internals(connection).protocol;
  }

  /** The methods that clients can call by RPC, by name, with the metadata of `@callable()`. */
  getCallableMethods(): Map<string, CallableMetadata> {
    return callableMethods(this);
  }

  /**
   * Keeps the agent in memory while its host lives. Resolves to a function that ends this; the
   * agent can hibernate once every such function was called.
   */
  async keepAlive(): Promise<() => void> {
    return this.#runtime.keepAlive();
  }

  /**
   * Keeps the agent in memory, and delays its host's orderly stop, while `f` runs. Settles as `f`
   * does.
   */
  async keepAliveWhile<A>(f: () => Promise<A>): Promise<A> {
    const done = f();
    this.#runtime.waitUntil(done.catch(() => undefined));
    return done;
  }

  /**
   * Ends this agent: deletes its state, SQL, schedules and queue, and closes its sockets with 1001,
   * without `onClose`. Resolves once that is stored. From the call on, writes throw
   * `AgentDestroyed`. The next access to its name starts a new agent. Its sub-agents end first;
   * with any, the agent can write until they have ended.
   */
  destroy(): Promise<void> {
    return this[FAMILY].end(() => this.#runtime.destroy());
  }

  // Hooks, for subclasses. What a hook throws goes to `onError`.

  /**
   * Hook: runs first when the agent comes into memory, while its other inputs wait. `props` are
   * those of the call that starts it, if any. When it throws, the input fails; the next input
   * starts the agent again.
   */
  onStart(_props?: Props): void | Promise<void> {}
  /** Hook: answers an HTTP request. Default: 404 `Not implemented`. */
  onRequest(_request: Request): Response | Promise<Response> {
    return new Response("Not implemented", { status: 404 });
  }
  /**
   * Hook: a client has connected, after the protocol's frames. When it throws and `onError` does
   * not return, the client receives an error frame and is closed with 1011.
   */
  onConnect(_connection: Connection, _ctx: ConnectionContext): void | Promise<void> {}
  /** Hook: a client's message that is none of the protocol's; bytes as an `ArrayBuffer`. */
  onMessage(_connection: Connection, _message: string | ArrayBuffer): void | Promise<void> {}
  /**
   * Hook: a socket has closed. `code` is 1006 for one that was lost without a close frame.
   */
  onClose(
    _connection: Connection,
    _code: number,
    _reason: string,
    _wasClean: boolean,
  ): void | Promise<void> {}
  /**
   * Hook: checks a state before it is set. Synchronous. Throwing rejects the change. Default:
   * accepts all.
   */
  validateStateChange(_next: State, _source: StateSource): void {}
  /**
   * Hook: the state was set, by a client or by the agent. Not called when the validator rejected
   * it.
   */
  onStateChanged(_state: State, _source: StateSource): void | Promise<void> {}
  /** @deprecated Use `onStateChanged`. */
  onStateUpdate?(state: State, source: StateSource): void | Promise<void>;
  /**
   * Hook: whether a new connection is readonly. Default: true where the gateway demands it (a class
   * with signed webhooks that is not `http: "open"`), else false.
   */
  shouldConnectionBeReadonly(connection: Connection, _ctx: ConnectionContext): boolean {
    return this.isConnectionReadonly(connection);
  }
  /**
   * Hook: whether a new connection receives the protocol's frames (identity, state, MCP servers).
   * Default true.
   */
  shouldSendProtocolMessages(_connection: Connection, _ctx: ConnectionContext): boolean {
    return true;
  }
  /**
   * Hook: tags of a new connection, for `getConnections(tag)`: at most 9 besides its id, each 1 to
   * 256 characters. More or longer ones are a `RangeError`. Default: none.
   */
  getConnectionTags(
    _connection: Connection,
    _ctx: ConnectionContext,
  ): ReadonlyArray<string> | Promise<ReadonlyArray<string>> {
    return [];
  }

  /**
   * Hook: receives errors of the agent's code, with the connection where one is concerned.
   * Returning suppresses the error. Default: logs the error and rethrows it.
   */
  onError(error: unknown): void | Promise<void>;
  onError(connection: Connection, error: unknown): void | Promise<void>;
  onError(first: unknown, second?: unknown): void | Promise<void> {
    const error = first instanceof Connection ? second : first;
    logCodeError(this.#runtime, error);
    throw error;
  }

  /**
   * For the runtime: sets a state that a client sent. Throws `ReadonlyConnection`, or what the
   * validator throws.
   */
  static changeFromClient(agent: Agent<unknown>, state: unknown, connection: Connection): void {
    if (agent.isConnectionReadonly(connection)) throw new ReadonlyConnection();
    agent.#change(state, connection, { except: connection });
  }

  #change(
    next: State,
    source: StateSource,
    how: { readonly except?: Connection | undefined; readonly isInitial?: boolean } = {},
  ): void {
    this.validateStateChange(next, source);
    this.#runtime.writeState(next, {
      ...how,
      changed: () =>
        stateHookOf(this, Agent.prototype, this.#runtime.log)?.(next, source) as unknown,
    });
  }
}
