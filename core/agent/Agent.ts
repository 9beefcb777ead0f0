/**
 * The class that users extend: one instance per name (`interface.md` §2.1, §4.3, §6.2). It holds
 * the methods that a subclass calls; the hooks that it overrides are in `AgentHooks`. Each method
 * is its contract and one line that delegates to an object of `AgentApis`, or to the runtime behind
 * `ctx`.
 */
import { ownName, type AgentPathStep } from "../../schemas/AgentPath.ts";
import type {
  Approval,
  ApprovalCriteria,
  ApprovalDecision,
  ApprovalGrant,
  ApprovalLinkOptions,
  ApprovalQuestion,
  WorkflowAnswerOptions,
} from "../approval/Approval.ts";
import type { BudgetInfo, Spend, SpendOptions } from "../budget/Budget.ts";
import { Connection, type ConnectionMessage } from "../connection/Connection.ts";
import { toObject, toSqlValue, type SqlParameter, type SqlRow } from "../database/AgentStorage.ts";
import { ReadonlyConnection, SqlError } from "../errors/errors.ts";
import type {
  DeleteFibersOptions,
  FiberFunction,
  FiberInspection,
  FiberRecoveryResult,
  ListFibersOptions,
  StartFiberOptions,
  StartFiberResult,
} from "../fiber/Fiber.ts";
import type { AgentEmail } from "../mail/AgentEmail.ts";
import type { ReplyOptions } from "../mail/composeReply.ts";
import type { SentEmail } from "../mail/EmailBinding.ts";
import type { SendEmailOptions } from "../mail/SendEmailOptions.ts";
import type { MCPClientManager } from "../mcp/MCPClientManager.ts";
import type { AddMcpServerOptions, AddMcpServerResult } from "../mcp/McpServerOptions.ts";
import type { McpServersState } from "../mcp/McpOffers.ts";
import type { OAuthProvider } from "../mcp/OAuthProvider.ts";
import type { AgentStub } from "../namespace/AgentStub.ts";
import type { SendWebhookOptions } from "../outgoing/OutgoingWebhook.ts";
import { readQueueOptions, type QueueOptions } from "../queue/QueueOptions.ts";
import type { QueueItem } from "../queue/QueueTable.ts";
import { retryCall, type RetryCallOptions } from "../retry/retryCall.ts";
import type { RetryOptions } from "../retry/RetryOptions.ts";
import type { FetchOptions, Step, StepOptions } from "../step/Step.ts";
import type { NaturalSchedule } from "../schedule/naturalSchedule.ts";
import type {
  Schedule,
  ScheduleCriteria,
  ScheduleOptions,
  ScheduleSettings,
} from "../schedule/Schedule.ts";
import type {
  BroadcastOptions,
  DurableStream,
  DurableStreamOptions,
} from "../stream/DurableStream.ts";
import type {
  AnyAgent,
  DynamicAgents,
  SubAgentClass,
  SubAgentStub,
} from "../subAgent/SubAgents.ts";
import type { SubAgentInfo } from "../subAgent/SubAgentTable.ts";
import type { LogShape } from "../telemetry/Log.ts";
import type { Observability } from "../telemetry/observability.ts";
import type { InstanceStatus } from "../workflow/WorkflowCalls.ts";
import type {
  RunWorkflowOptions,
  WorkflowInfo,
  WorkflowPage,
  WorkflowDeleteCriteria,
  WorkflowQueryCriteria,
} from "../workflow/WorkflowTable.ts";
import type { AgentApis } from "./AgentApis.ts";
import type { AgentContext, PlatformContext } from "./AgentContext.ts";
import { AgentHooks } from "./AgentHooks.ts";
import type { AgentRuntime } from "./AgentRuntime.ts";
import type { AgentStaticOptions } from "./AgentStaticOptions.ts";
import type { CallableMetadata } from "./callable.ts";
import { changeState } from "./changeState.ts";
import { callableMethods } from "./methods.ts";
import { runtimeOf } from "./RuntimeContext.ts";
import { stateHookOf } from "./stateHook.ts";

/** Marks agent classes, so that loaders recognise them without importing this file. */
const AGENT_MARK = Symbol.for("agents.Agent");

/** Marks an `initialState` that the class did not set. A class may set `undefined` itself. */
const UNSET: unknown = Symbol("initialState not set");

/**
 * Extend it and export the class from the module: one durable agent per name. `Env` is the type of
 * the bindings, `State` of the state, and `Props` of the argument of `onStart`. Agents are
 * constructed by the runtime; `new` throws a `TypeError`.
 */
export class Agent<
  Env = Record<string, unknown>,
  State = unknown,
  Props extends Record<string, unknown> = Record<string, unknown>,
> extends AgentHooks<State, Props> {
  static readonly [AGENT_MARK] = true;
  /** Options of the class. Override it in a subclass. */
  static options: AgentStaticOptions = {};

  /** This instance's context: its id and storage, `waitUntil`, `blockConcurrencyWhile`, `abort`. */
  readonly ctx: AgentContext;
  /** The bindings and variables of the installation: agent classes, workflows, `EMAIL`, secrets. */
  readonly env: Env;
  /** The state of an agent whose state was never set. Override it. Default: `undefined`. */
  initialState: State = UNSET as State;
  /** Receives the agent's events; `undefined` emits none. Default: Node's diagnostics channels. */
  observability: Observability | undefined;
  /** Exists in types only: bindings of the platform's types infer the class's methods from it. */
  declare readonly __DURABLE_OBJECT_BRAND: never;
  readonly #runtime: AgentRuntime;

  constructor(ctx: AgentContext | PlatformContext, env: Env) {
    super();
    // A getter of the class, which the field would hide.
    if ("initialState" in new.target.prototype) Reflect.deleteProperty(this, "initialState");
    this.ctx = ctx as AgentContext;
    this.env = env;
    this.#runtime = runtimeOf(this.ctx);
    this.observability = this.#runtime.observability;
    stateHookOf(this, this.#runtime);
  }

  // Identity and life

  /** The name that this instance is addressed by. For a sub-agent, without its parent's. */
  get name(): string {
    return ownName(this.#runtime.id);
  }

  /** The agent's log. Its lines carry the agent's class and name. */
  get log(): LogShape {
    return this.#runtime.log;
  }

  /** The methods that clients can call by RPC, by name, with the metadata of `@callable()`. */
  getCallableMethods(): Map<string, CallableMetadata> {
    return callableMethods(this);
  }

  /**
   * Keeps the agent in memory while its host lives. Resolves to a function that ends this; the
   * agent can hibernate once every such function has been called.
   */
  async keepAlive(): Promise<() => void> {
    return this.#runtime.keepAlive();
  }

  /** Keeps the agent in memory, and delays its host's stop, while `f` runs. Settles as `f` does. */
  async keepAliveWhile<A>(f: () => Promise<A>): Promise<A> {
    const done = Promise.resolve(f());
    this.#runtime.waitUntil(done.catch(() => undefined));
    return done;
  }

  /**
   * Ends this agent: deletes its state, SQL, schedules and queue, and closes its sockets with 1001,
   * without `onClose`. Resolves once that is stored. From the call on, writes throw
   * `AgentDestroyed`. The next access to its name starts a new agent. Its sub-agents end first; an
   * agent that has any can write until they have ended.
   */
  destroy(): Promise<void> {
    return this.#apis.subAgents.end(() => this.#runtime.destroy());
  }

  // State and SQL

  /**
   * The current state. Only `setState` changes it. The first read of an agent without a state sets
   * it to `initialState` where the class has one; otherwise the state is `undefined`. While an
   * agent has stored nothing, its initial state is not stored either: it is stored with the first
   * write, and until then each start sets it again. The first read throws what
   * `validateStateChange` throws for the initial state.
   */
  get state(): State {
    if (!this.#runtime.hasState && this.initialState !== UNSET)
      changeState(this, this.#runtime, {
        next: this.initialState,
        source: "server",
        except: this.#runtime.currentConnection(),
        isInitial: true,
      });
    return this.#runtime.state as State;
  }

  /**
   * Replaces the state: calls `validateStateChange`, persists the state, sends it to every client
   * and calls `onStateChanged`. Throws what the validator throws, `ReadonlyConnection` in the
   * context of a readonly connection, `TypeError` for a value that JSON cannot represent,
   * `RangeError` for more than 500 levels of nesting, and `StateTooLarge` or `JournalRateExceeded`
   * past a limit of `AgentStaticOptions`. When it throws, nothing has changed.
   */
  setState(state: State): void {
    const connection = this.#runtime.currentConnection();
    if (connection !== undefined && this.isConnectionReadonly(connection))
      throw new ReadonlyConnection();
    changeState(this, this.#runtime, { next: state, source: "server" });
  }

  /**
   * Runs SQL on the agent's own SQLite database. Each `${value}` is bound as a parameter; a boolean
   * is stored as 0 or 1, `undefined` as NULL. Returns the rows as objects, empty for a statement
   * without rows; if two columns share a name, the last one wins. `SqlColumnValue` describes how
   * values are returned. Throws `SqlError`, whose `cause` is SQLite's own error or
   * `CommitTooLarge`.
   */
  sql<Row = SqlRow>(strings: TemplateStringsArray, ...values: SqlParameter[]): Row[] {
    if (!Array.isArray(strings))
      throw new TypeError(
        "sql is the tag of a template: this.sql`SELECT * FROM things WHERE id = ${id}`",
      );
    const query = strings.join("?");
    try {
      const { columns, rows } = this.#runtime.query(query, values.map(toSqlValue), true);
      return rows.map((row) => toObject(columns, row) as Row);
    } catch (cause) {
      throw new SqlError(query, cause);
    }
  }

  // Connections

  /** All open connections, or those with this tag. */
  *getConnections<TState = unknown>(tag?: string): Iterable<Connection<TState>> {
    for (const connection of this.#runtime.connections())
      if (tag === undefined || connection.tags.includes(tag))
        yield connection as Connection<TState>;
  }

  /** The open connection with this id, or undefined. Throws when several sockets share the id. */
  getConnection<TState = unknown>(id: string): Connection<TState> | undefined {
    const found = [...this.#runtime.connections()].filter((c) => c.id === id);
    if (found.length > 1) throw new Error(`More than one connection has the id "${id}"`);
    return found[0] as Connection<TState> | undefined;
  }

  /**
   * Sends a raw message to every client, except to connections whose id is in `without`. With
   * `keep`, disconnected clients receive it when they reconnect; the newest 1,000 messages are
   * kept, up to 1 MiB in all. Throws `RangeError` for a kept message over 64 KiB, and `TypeError`
   * or `RangeError` for a `keep` that is not a time span from 1 second to 30 days.
   */
  broadcast(
    message: ConnectionMessage,
    without: ReadonlyArray<string> | BroadcastOptions = [],
  ): void {
    this.#apis.streams.broadcast(message, without, (except) =>
      this.#runtime.broadcast(message, except),
    );
  }

  /** Makes a connection readonly or writable. Changes of state from a readonly one are refused. */
  setConnectionReadonly(connection: Connection, readonly = true): void {
    Connection.internals(connection).readonly = readonly;
    this.#runtime.attach(connection);
  }

  /** Whether state changes from this connection are refused. */
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

  // Steps

  /**
   * Runs `f` and stores its result with the turn before the code after it continues. When the turn
   * runs again, on any host, a done step returns its stored result without running `f`. Available
   * in turns of webhooks, schedules, queue items, mail, durable calls and workflow reports, and in
   * fibers: a fiber that continues after a crash has its stored results. A step is identified by
   * its name and its number among the turn's steps of that name.
   *
   * `f` receives a `Step`: an idempotency key for what it calls, which `fetch` sends by itself, and
   * a signal. `f` can't write to the agent. A failed attempt is retried as `options.retry` says.
   * Resolves to the result as parsed from JSON. Rejects with the error of the last attempt,
   * `StepTimedOut`, `TypeError` for a result that JSON can't carry, `StepTooLarge`, and
   * `StepNotDurable` in a turn of another kind.
   */
  async step<A>(
    name: string,
    f: (step: Step) => A | Promise<A>,
    options: StepOptions<A> = {},
  ): Promise<A> {
    return this.#runtime.apis.steps.run(name, f, options);
  }

  /**
   * In a turn that can have steps, makes the request in a step, which is named after the method and
   * the URL without its query. The response is read whole (at most 8 MiB) and stored with the turn,
   * without credentials in its headers, before the code after it continues. Requests whose method
   * is not safe carry `Idempotency-Key`. A request that receives no response is retried as
   * `init.retry` says. After a response with status 400 or above, the turn's next attempt makes the
   * request again. In any other turn, and inside a step's function, this is the plain `fetch`.
   *
   * Rejects as the plain `fetch` and `step` do, with `StepTooLarge` for a larger body, and with
   * `StepNotDurable` for `record: true` in a turn of another kind.
   */
  async fetch(input: Request | string | URL, init: FetchOptions = {}): Promise<Response> {
    return this.#runtime.apis.fetch.run(input, init);
  }

  // Schedules and the queue

  /**
   * Calls a method later, durable with this turn. `options` has exactly one of `time`,
   * `delayInSeconds`, `cron` and `intervalSeconds`. Resolves to the schedule's id. Rejects for an
   * unknown method, a bad cron expression or an invalid time, with a message that says which.
   */
  schedule<T = unknown>(
    callback: keyof this & string,
    options: ScheduleOptions<T>,
  ): Promise<string>;
  /** The reference's shape: calls a method once, at a time. Resolves to the schedule. */
  schedule<T = unknown>(
    time: Date,
    callback: keyof this & string,
    payload?: T,
    options?: ScheduleSettings,
  ): Promise<Schedule<T>>;
  /** Calls a method once, after a delay in seconds; fractions count. Resolves to the schedule. */
  schedule<T = unknown>(
    delaySeconds: number,
    callback: keyof this & string,
    payload?: T,
    options?: ScheduleSettings,
  ): Promise<Schedule<T>>;
  /** Calls a method by cron, in UTC or in `options.timezone`. Resolves to the schedule. */
  schedule<T = unknown>(
    cron: string,
    callback: keyof this & string,
    payload?: T,
    options?: ScheduleSettings,
  ): Promise<Schedule<T>>;
  /** Accepts any of the three: a time, a delay in seconds, or a cron expression. */
  schedule<T = unknown>(
    when: Date | number | string,
    callback: keyof this & string,
    payload?: T,
    options?: ScheduleSettings,
  ): Promise<Schedule<T>>;
  schedule(...args: unknown[]): Promise<string | Schedule> {
    return this.#ask(({ schedules }) => schedules.add(args));
  }

  /**
   * Calls a method at a fixed interval in seconds, counted from the end of each run: more than 0,
   * at most 2,592,000 (30 days). `_idempotent` is the reference's name of `idempotent`. Resolves to
   * the schedule. Rejects with `RangeError` for another interval, and for an unknown method.
   */
  scheduleEvery<T = unknown>(
    intervalSeconds: number,
    callback: keyof this & string,
    payload?: T,
    options: ScheduleSettings & { readonly _idempotent?: boolean } = {},
  ): Promise<Schedule<T>> {
    return this.#ask(
      ({ schedules }) =>
        schedules.addInterval(intervalSeconds, callback, payload, options) as Schedule<T>,
    );
  }

  /**
   * Schedules the result of `agents/schedule` for free text. The callback's payload is the
   * description unless `settings` has another. Resolves to the schedule's id, or to null when the
   * text contains no time. Rejects with `RangeError` for an invalid date, and as `schedule` does.
   */
  scheduleFrom(
    result: NaturalSchedule,
    callback = "onSchedule",
    settings: ScheduleSettings = {},
  ): Promise<string | null> {
    return this.#ask(({ schedules }) => schedules.addNatural(result, callback, settings));
  }

  /** The schedule with this id, or undefined. */
  getSchedule<T = unknown>(id: string): Schedule<T> | undefined {
    return this.#apis.schedules.get(id) as Schedule<T> | undefined;
  }

  /**
   * The schedules that meet the criteria; without criteria, all of them. Throws `TypeError` for an
   * unknown criterion or an invalid date.
   */
  getSchedules<T = unknown>(criteria: ScheduleCriteria = {}): Array<Schedule<T>> {
    return this.#apis.schedules.list(criteria) as Array<Schedule<T>>;
  }

  /** `getSchedule`, as a promise. */
  async getScheduleById<T = unknown>(id: string): Promise<Schedule<T> | undefined> {
    return this.getSchedule<T>(id);
  }

  /** `getSchedules`, as a promise. */
  async listSchedules<T = unknown>(criteria: ScheduleCriteria = {}): Promise<Array<Schedule<T>>> {
    return this.getSchedules<T>(criteria);
  }

  /** Once this turn is stored, its callback starts no more. Resolves to whether it existed. */
  async cancelSchedule(id: string): Promise<boolean> {
    return this.#apis.schedules.cancel(id);
  }

  /**
   * Calls a method as soon as possible after this turn: durable, first in first out, one at a time.
   * `options` are retry options, or `{ retry?, id? }`; `id` is random unless given. Resolves to the
   * item's id without waiting for the callback. Rejects for an unknown method, an unknown option
   * and a payload that is not JSON.
   */
  queue<T = unknown>(
    callback: keyof this & string,
    payload?: T,
    options: RetryOptions | QueueOptions = {},
  ): Promise<string> {
    const read = () => readQueueOptions(`queue("${callback}", …)`, options);
    return this.#ask(() => this.#runtime.queue.push(callback, payload, read()));
  }

  /** Removes a queue item. Resolves to whether it existed, waiting or running. */
  async dequeue(id: string): Promise<boolean> {
    return this.#runtime.queue.remove("id = ?", id) > 0;
  }
  /** Removes all queue items. Resolves to their number. */
  async dequeueAll(): Promise<number> {
    return this.#runtime.queue.remove("1");
  }
  /** Removes the queue items of one method. Resolves to their number. */
  async dequeueAllByCallback(callback: string): Promise<number> {
    return this.#runtime.queue.remove("callback = ?", callback);
  }
  /** The queue item with this id, or undefined. */
  async getQueue<T = unknown>(id: string): Promise<QueueItem<T> | undefined> {
    return this.#runtime.queue.get(id) as QueueItem<T> | undefined;
  }
  /** The queue items whose payload has `value` under `key`. */
  async getQueues<T = unknown>(key: string, value: unknown): Promise<Array<QueueItem<T>>> {
    return [...this.#runtime.queue.matching(key, value)] as Array<QueueItem<T>>;
  }

  // Outgoing webhooks and retries

  /**
   * Sends `body` as JSON by POST once this turn is stored: durable, retried by the policy, in the
   * order of the calls. Resolves to the `Idempotency-Key` without waiting for the answer. A request
   * that fails for good goes to `onError`, as an `OutgoingWebhookFailed` whose message contains the
   * status, and to the dead letters. Rejects with `TypeError` for a body or URL that can't be sent,
   * and for an address that is not public unless `allowPrivate`.
   */
  async sendWebhook(
    url: string | URL,
    body: unknown,
    options: SendWebhookOptions = {},
  ): Promise<string> {
    return this.#runtime.outgoing.send(url, body, options);
  }

  /**
   * Calls `f(attempt)`, with attempts counted from 1, until it succeeds, waiting `random · min(base
   * · 2^n, max)` after failed attempt n. Rejects with the last error when the attempts are spent or
   * `shouldRetry` returns false, and with an `Error` for options out of range. In memory only: work
   * that must survive a crash belongs into `queue`.
   */
  async retry<T>(f: (attempt: number) => Promise<T>, options: RetryCallOptions = {}): Promise<T> {
    const { time, options: own } = this.#runtime;
    return retryCall(f, options, { time, classRetry: own.retry });
  }

  // Mail

  /**
   * Answers a mail once this turn is stored: from the address that it was sent to, to its sender,
   * in its thread. Resolves to undefined and sends nothing when the mail is a bounce or an
   * automatic message, since two machines could answer each other forever. Rejects with `TypeError`
   * for a reply that can't be sent, and for a mail that arrived as a signed reply when `secret` is
   * absent (null sends it unsigned). Rejects with `EmailRefused` if no relay is configured.
   */
  async replyToEmail(email: AgentEmail, options: ReplyOptions): Promise<SentEmail | undefined> {
    return this.#apis.mail.reply(email, options);
  }

  /**
   * Sends a mail once this turn is stored, retried while the relay can't be reached. Resolves to
   * its message id. Rejects with `TypeError` for a mail that can't be sent or has no `binding`, and
   * with `EmailRefused` if no relay is configured.
   */
  async sendEmail(options: SendEmailOptions): Promise<SentEmail> {
    return this.#apis.mail.send(options);
  }

  // MCP servers

  /** The agent's MCP servers: their connections, tools, prompts and resources. */
  get mcp(): MCPClientManager {
    return this.#runtime.mcp;
  }

  /**
   * Adds an MCP server over HTTP, connects to it and lists its tools, prompts and resources. A
   * server of the same name and URL is reused. Resolves to `authenticating` when the user has to
   * open `authUrl` first. Rejects with `TypeError` for a bad URL, and with an `Error` when the id
   * is taken or the connection fails; the server then stays stored. `(name, url, callbackHost,
   * agentsPrefix, options)` is the older shape.
   */
  async addMcpServer(
    name: string,
    url: string,
    hostOrOptions: string | AddMcpServerOptions = {},
    agentsPrefix?: string,
    more: Pick<AddMcpServerOptions, "client" | "transport"> = {},
  ): Promise<AddMcpServerResult> {
    const prefix = agentsPrefix === undefined ? {} : { agentsPrefix };
    const options =
      typeof hostOrOptions === "string"
        ? { ...more, callbackHost: hostOrOptions, ...prefix }
        : hostOrOptions;
    return this.#apis.mcp.add(name, url, options);
  }

  /** Disconnects a server and deletes it with its tokens. */
  async removeMcpServer(id: string): Promise<void> {
    await this.mcp.removeServer(id);
  }

  /** The servers, their states, tools, prompts and resources, as in the frame that clients get. */
  getMcpServers(): McpServersState {
    return this.mcp.getMcpServers();
  }

  /** Returns the store of an authorization's secrets. Override it to customize OAuth. */
  createMcpOAuthProvider(callbackUrl: string): OAuthProvider {
    return this.#apis.mcp.storedProvider(this.ctx.storage, callbackUrl);
  }

  // Workflows

  /**
   * Starts a workflow instance and tracks it. Durable with this turn: the instance begins once the
   * turn is stored, even if this host ends. Resolves to the instance's id. Rejects for a name that
   * is not a workflow's binding, an id that is already tracked, an unknown option, and params that
   * are not JSON.
   */
  async runWorkflow<Params = unknown>(
    workflowName: string,
    params?: Params,
    options: RunWorkflowOptions = {},
  ): Promise<string> {
    return this.#apis.workflows.run(workflowName, params, options);
  }

  /** A tracked instance as this agent knows it, or undefined. */
  getWorkflow(workflowId: string): WorkflowInfo | undefined {
    return this.#apis.workflows.get(workflowId);
  }

  /**
   * Returns a page of tracked instances, newest first by default, selected by `cursor` or by
   * `limit` and `offset`. The result is both the page and a promise of it. Throws for an unknown
   * criterion.
   */
  getWorkflows(criteria: WorkflowQueryCriteria = {}): Promise<WorkflowPage> & WorkflowPage {
    const page = this.#apis.workflows.page(criteria);
    return Object.assign(Promise.resolve(page), page);
  }

  /**
   * Approves an instance: its `waitForApproval` resolves to this metadata; with `options.approval`,
   * its `this.approval` of that name does. Durable with this turn. An answer to an approval that is
   * not waiting is dropped. Rejects for an untracked id.
   */
  async approveWorkflow(
    workflowId: string,
    given?: unknown,
    options: WorkflowAnswerOptions = {},
  ): Promise<void> {
    this.#apis.workflows.approve(workflowId, given, options);
  }

  /** Rejects an instance as `approveWorkflow` approves one: its wait rejects with the reason. */
  async rejectWorkflow(
    workflowId: string,
    given?: string | { readonly reason?: string },
    options: WorkflowAnswerOptions = {},
  ): Promise<void> {
    this.#apis.workflows.reject(workflowId, given, options);
  }

  /**
   * Sends an event for `step.waitForEvent`; it is kept until a step waits for it. Rejects for an
   * unknown workflow.
   */
  async sendWorkflowEvent(
    workflowName: string,
    workflowId: string,
    event: { readonly type: string; readonly payload?: unknown },
  ): Promise<void> {
    this.#apis.workflows.send(workflowName, workflowId, event);
  }

  /** Asks the instance for its status and updates the tracked one. Rejects for an unknown one. */
  async getWorkflowStatus(workflowName: string, workflowId: string): Promise<InstanceStatus> {
    return this.#apis.workflows.status(workflowName, workflowId);
  }

  /** Ends an instance. Rejects for an untracked id. */
  async terminateWorkflow(workflowId: string): Promise<void> {
    await this.#apis.workflows.control(workflowId, "terminate");
  }
  /** Pauses an instance before its next step. Rejects for an untracked id. */
  async pauseWorkflow(workflowId: string): Promise<void> {
    await this.#apis.workflows.control(workflowId, "pause");
  }
  /** Resumes a paused instance. Rejects for an untracked id. */
  async resumeWorkflow(workflowId: string): Promise<void> {
    await this.#apis.workflows.control(workflowId, "resume");
  }
  /**
   * Restarts an instance from its first step, with the same params. What the agent tracks about it
   * is reset as well, unless `resetTracking` is false. Rejects for an untracked id.
   */
  async restartWorkflow(
    workflowId: string,
    options: { readonly resetTracking?: boolean } = {},
  ): Promise<void> {
    await this.#apis.workflows.restart(workflowId, options);
  }

  /** Stops tracking an instance, which continues to run. Returns whether it was tracked. */
  deleteWorkflow(workflowId: string): boolean {
    return this.#apis.workflows.forget(workflowId);
  }
  /**
   * Stops tracking the instances that meet the criteria; with none, all. Returns their number.
   * Throws for an unknown criterion.
   */
  deleteWorkflows(criteria: WorkflowDeleteCriteria = {}): number {
    return this.#apis.workflows.forgetAll(criteria);
  }
  /** Moves tracked instances of a renamed binding to its new name. Returns their number. */
  migrateWorkflowBinding(before: string, after: string): number {
    return this.#apis.workflows.rename(before, after);
  }

  // Fibers

  /**
   * Runs `f` as a recorded fiber. If its host dies meanwhile, the agent's next host calls
   * `onFiberRecovered` with its last stash, within `keepAliveIntervalMs`. Earlier writes are stored
   * when `f` begins. Settles as `f` does. Rejects with `TypeError` without a name.
   */
  async runFiber<A>(name: string, f: FiberFunction<A>): Promise<A> {
    return this.#apis.fibers.run(name, f);
  }

  /**
   * Accepts a fiber, durable with this turn, and runs it after the turn. A call with the key or id
   * of an earlier fiber resolves to that fiber's record. The record is kept after the fiber has
   * ended, until `deleteFibers`. The result of `f` is dropped; its error is in the record. Rejects
   * with `TypeError` without a name, and with an `Error` for a blank id or key, or for an id and a
   * key of different fibers.
   */
  async startFiber(
    name: string,
    f: FiberFunction<unknown>,
    options: StartFiberOptions = {},
  ): Promise<StartFiberResult> {
    return this.#apis.fibers.start(name, f, options);
  }

  /** The record of a fiber of `startFiber`, or null. */
  async inspectFiber(fiberId: string): Promise<FiberInspection | null> {
    return this.#apis.fibers.inspect(fiberId);
  }
  /** The record of the fiber with this idempotency key, or null. */
  async inspectFiberByKey(idempotencyKey: string): Promise<FiberInspection | null> {
    return this.#apis.fibers.inspectByKey(idempotencyKey);
  }

  /** Records of fibers of `startFiber`, newest first. */
  async listFibers(options: ListFibersOptions = {}): Promise<FiberInspection[]> {
    return this.#apis.fibers.list(options);
  }

  /**
   * Aborts a fiber's `context.signal`; its record becomes `aborted` at once. Resolves to false if
   * it had already ended.
   */
  async cancelFiber(fiberId: string, reason?: string): Promise<boolean> {
    return this.#apis.fibers.cancel(fiberId, reason);
  }
  /** `cancelFiber` by idempotency key. Also resolves to false if there is no such fiber. */
  async cancelFiberByKey(idempotencyKey: string, reason?: string): Promise<boolean> {
    return this.#apis.fibers.cancelByKey(idempotencyKey, reason);
  }

  /** Sets the outcome of an interrupted fiber. Resolves to whether the fiber was interrupted. */
  async resolveFiber(fiberId: string, result: FiberRecoveryResult): Promise<boolean> {
    return this.#apis.fibers.resolve(fiberId, result);
  }

  /** Deletes records of ended fibers. Resolves to their number. */
  async deleteFibers(options: DeleteFibersOptions = {}): Promise<number> {
    return this.#apis.fibers.delete(options);
  }

  /**
   * Replaces the stash of the fiber whose function makes this call. Throws `TypeError` for a value
   * that is not JSON, and an `Error` outside of a fiber.
   */
  stash(data: unknown): void {
    this.#apis.fibers.stash(data);
  }

  /** For the runtime: the alarm of running fibers (`Fibers`, rule 2). */
  _checkFibers(): void {
    this.#apis.fibers.check();
  }

  // Approvals

  /**
   * Asks people from a fiber, and waits until one of them answers. Resolves to who approved and
   * when. A fiber that continues after its host died asks again with the same name and prompt, and
   * receives an answer that arrived meanwhile. Rejects with `ApprovalRejected`, with
   * `ApprovalTimedOut`, with `ApprovalNotDurable` outside of a fiber, and with what `notify`
   * throws; with `TypeError` or `RangeError` for an invalid name or question. In a workflow:
   * `AgentWorkflow.approval`.
   */
  async approval<Metadata = unknown>(
    name: string,
    question: ApprovalQuestion = {},
  ): Promise<ApprovalGrant<Metadata>> {
    return this.#apis.fiberApprovals.ask<Metadata>(name, question);
  }

  /**
   * The approvals that this agent asked for and that meet all criteria, newest first. Throws
   * `TypeError` for an unknown criterion.
   */
  getApprovals(criteria: ApprovalCriteria = {}): Approval[] {
    return this.#apis.approvals.list(criteria);
  }

  /**
   * Decides an approval of this agent, by its id or its name. If several have that name, the
   * waiting one is decided, else the latest. Whoever asked continues once this turn is stored.
   * Resolves to the decided approval; repeating the same answer by the same person changes nothing.
   * Rejects with `ApprovalClosed` if it is already decided or over, with an `Error` if there is
   * none, and with `TypeError` or `RangeError` for an invalid decision.
   */
  async decideApproval(which: string, decision: ApprovalDecision): Promise<Approval> {
    return this.#apis.approvals.decide(which, decision);
  }

  /**
   * Returns a link by which one person can answer an approval of this agent, once. Opening it shows
   * a page with the question; only the page's buttons decide. Rejects with `TypeError` for bad
   * options or without `APPROVAL_SECRET`, and with an `Error` for an approval that was not asked
   * for.
   */
  async approvalLink(which: string, options: ApprovalLinkOptions): Promise<string> {
    return this.#apis.approvals.link(which, options);
  }

  // Durable streams

  /**
   * The durable stream with this key (1 to 256 characters). The first write starts it. A turn that
   * runs again finds what it has written, and continues from there. `Chunk` is the type of its
   * chunks, which are JSON. Throws `TypeError` for a bad key, and `TypeError` or `RangeError` for
   * bad options.
   */
  stream<Chunk = string>(key: string, options?: DurableStreamOptions): DurableStream<Chunk> {
    return this.#apis.streams.open<Chunk>(key, options);
  }

  /** For the runtime: the alarm of what is kept for a time (`ExpiryAlarm`). */
  _expireKept(): void {
    this.#apis.streams.expire();
  }

  // Budgets

  /**
   * Reserves an amount of a budget of this agent, before the call that spends it: `await
   * this.spend("tokens", 2000, { limit: 100_000, per: "day" })`. Settle it afterwards with the
   * amount that was spent. A turn that runs again finds its earlier reservation. Rejects with
   * `BudgetExceeded` past the limit, with `InvalidCron` for an unknown time zone, and with
   * `TypeError` or `RangeError` for invalid arguments; nothing is then reserved.
   */
  async spend(budget: string, amount: number, options: SpendOptions): Promise<Spend> {
    return this.#apis.budgets.spend(budget, amount, options);
  }

  /** The budgets of this agent in their current periods. */
  getBudgets(): BudgetInfo[] {
    return this.#apis.budgets.list();
  }

  // Sub-agents

  /** The sub-agents of this agent, each with its own state, SQL, schedules and sockets. */
  get dynamicAgents(): DynamicAgents {
    return this.#apis.subAgents;
  }

  /** The ancestors, root first; empty for a top-level agent. */
  get parentPath(): ReadonlyArray<AgentPathStep> {
    return this.#apis.subAgents.above;
  }

  /** The ancestors and this agent, root first: the argument of `buildAgentPath`. */
  get selfPath(): ReadonlyArray<AgentPathStep> {
    return this.#apis.subAgents.path;
  }

  /** A stub for the direct parent. Rejects without one, and for a parent of another class. */
  async parentAgent<A extends AnyAgent>(agentClass: SubAgentClass<A>): Promise<AgentStub<A>> {
    return this.#apis.subAgents.parent(agentClass);
  }

  /** Returns a stub for the sub-agent, which is created if needed: `dynamicAgents.get`. */
  subAgent<A extends AnyAgent>(
    agentClass: SubAgentClass<A>,
    name: string,
  ): Promise<SubAgentStub<A>> {
    return this.dynamicAgents.get(agentClass, name);
  }
  /** Discards a sub-agent in memory: `dynamicAgents.abort`. */
  abortSubAgent(agentClass: SubAgentClass, name: string, reason?: unknown): void {
    this.dynamicAgents.abort(agentClass, name, reason);
  }
  /** Destroys a sub-agent with all that it has stored: `dynamicAgents.delete`. */
  deleteSubAgent(agentClass: SubAgentClass, name: string): Promise<void> {
    return this.dynamicAgents.delete(agentClass, name);
  }
  /** Whether the sub-agent exists: `dynamicAgents.has`. */
  hasSubAgent(agentClass: SubAgentClass | string, name: string): boolean {
    return this.dynamicAgents.has(agentClass, name);
  }
  /** The sub-agents, of one class or of all: `dynamicAgents.list`. */
  listSubAgents(agentClass?: SubAgentClass | string): SubAgentInfo[] {
    return this.dynamicAgents.list(agentClass);
  }

  get #apis(): AgentApis {
    return this.#runtime.apis;
  }

  /** Settles with what `f` returns or throws. An unhandled rejection fails the turn. */
  async #ask<A>(f: (apis: AgentApis) => A): Promise<A> {
    try {
      return f(this.#apis);
    } catch (error) {
      this.#runtime.rejects();
      throw error;
    }
  }
}
