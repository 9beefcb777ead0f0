/**
 * The class that users extend: one instance per name, its state, SQL, clients and hooks
 * (`interface.md` §2.1, §4.3, §6.2). Thin: every durable thing is done by the runtime behind `ctx`.
 */
import { ownName } from "../../schemas/AgentPath.ts";
import type { LogShape } from "../telemetry/Log.ts";
import type { CallableMetadata } from "./callable.ts";
import { runtimeOf, type AgentContext } from "./AgentContext.ts";
import type { AgentRuntime } from "./AgentRuntime.ts";
import { toObject, toSqlValue, type SqlParameter } from "../database/AgentStorage.ts";
import { Connection, type ConnectionMessage } from "../connection/Connection.ts";
import { ReadonlyConnection, SqlError } from "../errors/errors.ts";
import type { AgentStaticOptions } from "./AgentStaticOptions.ts";
import { AgentSubAgents, FAMILY } from "./AgentSubAgents.ts";
import { callableMethods } from "./methods.ts";
import type { Observability } from "../telemetry/observability.ts";
import { stateHookOf } from "./stateHook.ts";

/** How loaders know an agent class without importing this file. */
export const AGENT_MARK = Symbol.for("agents.Agent");

/** Who asks for a state change: a client's connection, or the agent's own code. */
export type StateSource = Connection | "server";

export interface ConnectionContext {
  /** The upgrade request. */
  readonly request: Request;
}

/**
 * Stands for an `initialState` that the class does not set: `undefined` is a value it could set.
 */
const UNSET: unknown = Symbol("initialState not set");

export class Agent<
  Env = Record<string, unknown>,
  State = unknown,
  Props extends Record<string, unknown> = Record<string, unknown>,
> extends AgentSubAgents {
  static readonly [AGENT_MARK] = true;
  static options: AgentStaticOptions = {};

  override readonly env: Env;
  /** The state before anything set it. Overridden by subclasses. */
  initialState: State = UNSET as State;
  /**
   * Gets the agent's events; `undefined` keeps them to itself. Default: Node's diagnostics
   * channels.
   */
  observability: Observability | undefined;
  readonly #runtime: AgentRuntime;

  constructor(ctx: AgentContext, env: Env) {
    super(ctx);
    this.env = env;
    this.#runtime = runtimeOf(ctx);
    this.observability = this.#runtime.observability;
    stateHookOf(this, Agent.prototype, this.#runtime.log);
  }

  /** The name that this instance is addressed by. */
  get name(): string {
    return ownName(this.#runtime.id);
  }

  /** The agent's log: lines carry its class and name. */
  get log(): LogShape {
    return this.#runtime.log;
  }

  /**
   * The current state; changed only by `setState`. The first read of an agent that has none sets it
   * to `initialState` where the class has one, else it is `undefined`. Of an agent that has stored
   * nothing yet the initial state is stored with the first thing that is: until then each start
   * sets it anew.
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
   * Replaces the state: `validateStateChange`, persisted, sent to every client, `onStateChanged`.
   * Throws what the validator throws, `ReadonlyConnection` in the context of a readonly connection,
   * a `TypeError` for a value that JSON cannot carry, `StateTooLarge` and `JournalRateExceeded` for
   * what is too much (`AgentStaticOptions`); then nothing has changed.
   */
  setState(state: State): void {
    const connection = this.#runtime.currentConnection();
    if (connection !== undefined && this.isConnectionReadonly(connection))
      throw new ReadonlyConnection();
    this.#change(state, "server");
  }

  /**
   * Runs SQL on the agent's own SQLite database; each `${value}` is bound, never spliced in.
   * Gives the rows as objects. Throws `SqlError`.
   */
  sql<Row = Record<string, string | number | boolean | null>>(
    strings: TemplateStringsArray,
    ...values: SqlParameter[]
  ): Row[] {
    const query = strings.join("?");
    try {
      const { columns, rows } = this.#runtime.query(query, values.map(toSqlValue), true);
      return rows.map((row) => toObject(columns, row) as Row);
    } catch (cause) {
      throw new SqlError(query, cause);
    }
  }

  /** Open connections, all or those with a tag. */
  *getConnections<TState = unknown>(tag?: string): Iterable<Connection<TState>> {
    for (const connection of this.#runtime.connections())
      if (tag === undefined || connection.tags.includes(tag))
        yield connection as Connection<TState>;
  }

  /** The connection with this id. Throws when several sockets share it. */
  getConnection<TState = unknown>(id: string): Connection<TState> | undefined {
    const found = [...this.#runtime.connections()].filter((c) => c.id === id);
    if (found.length > 1) throw new Error(`More than one connection has the id "${id}"`);
    return found[0] as Connection<TState> | undefined;
  }

  /** Sends a raw message to every client but those whose connection id is in `without`. */
  broadcast(message: ConnectionMessage, without: ReadonlyArray<string> = []): void {
    this.#runtime.broadcast(message, without);
  }

  setConnectionReadonly(connection: Connection, readonly = true): void {
    Connection.internals(connection).readonly = readonly;
    this.#runtime.attach(connection);
  }

  isConnectionReadonly(connection: Connection): boolean {
    return Connection.internals(connection).readonly;
  }

  /**
   * Does it get the protocol's frames (identity, state, MCP servers)? Decided when it connected.
   */
  isConnectionProtocolEnabled(connection: Connection): boolean {
    return Connection.internals(connection).protocol;
  }

  /** The methods that clients may call, with what `@callable()` said of them. */
  getCallableMethods(): Map<string, CallableMetadata> {
    return callableMethods(this);
  }

  /**
   * Keeps the agent in memory, while its host lives, until the function that it resolves to is
   * called.
   */
  async keepAlive(): Promise<() => void> {
    return this.#runtime.keepAlive();
  }

  /**
   * Keeps the agent in memory, and its host from stopping in order, while `f` runs. Settles as `f`
   * does.
   */
  async keepAliveWhile<A>(f: () => Promise<A>): Promise<A> {
    const done = f();
    this.#runtime.waitUntil(done.catch(() => undefined));
    return done;
  }

  /**
   * Ends this agent: state, SQL, schedules and queue are gone, sockets are closed with 1001.
   * Resolves when that is stored; from the call on it can't be written to. The next access to its
   * name meets a fresh one. Its sub-agents end before it: with any, it can be written to until they
   * have.
   */
  destroy(): Promise<void> {
    return this[FAMILY].end(() => this.#runtime.destroy());
  }

  // Hooks, for subclasses. A hook that throws goes to `onError`.

  onStart(_props?: Props): void | Promise<void> {}
  onRequest(_request: Request): Response | Promise<Response> {
    return new Response("Not implemented", { status: 404 });
  }
  onConnect(_connection: Connection, _ctx: ConnectionContext): void | Promise<void> {}
  onMessage(_connection: Connection, _message: string | ArrayBuffer): void | Promise<void> {}
  onClose(
    _connection: Connection,
    _code: number,
    _reason: string,
    _wasClean: boolean,
  ): void | Promise<void> {}
  /** Synchronous; throwing rejects the update. */
  validateStateChange(_next: State, _source: StateSource): void {}
  onStateChanged(_state: State, _source: StateSource): void | Promise<void> {}
  /** @deprecated Its name is `onStateChanged`. */
  onStateUpdate?(state: State, source: StateSource): void | Promise<void>;
  /**
   * Default: true where the gateway asks for it (a class with signed webhooks that is not `http:
   * "open"`), else false.
   */
  shouldConnectionBeReadonly(connection: Connection, _ctx: ConnectionContext): boolean {
    return this.isConnectionReadonly(connection);
  }
  shouldSendProtocolMessages(_connection: Connection, _ctx: ConnectionContext): boolean {
    return true;
  }
  getConnectionTags(
    _connection: Connection,
    _ctx: ConnectionContext,
  ): ReadonlyArray<string> | Promise<ReadonlyArray<string>> {
    return [];
  }

  /** The default logs the error and throws it on. An `onError` that returns suppresses it. */
  onError(error: unknown): void | Promise<void>;
  onError(connection: Connection, error: unknown): void | Promise<void>;
  onError(first: unknown, second?: unknown): void | Promise<void> {
    const error = first instanceof Connection ? second : first;
    this.#runtime.log.error("an error in the agent's code", {
      error: error instanceof Error ? (error.stack ?? error.message) : String(error),
    });
    throw error;
  }

  /**
   * The runtime's entry for a state that a client sent. Throws `ReadonlyConnection`, or what the
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
