/**
 * One agent in memory: its image, its database, the user's object, its connections and its turns.
 * Phases: activation (`activate.ts`, before) → turns (here, `handleCall`, `Mailbox`) → hibernation
 * or discard (here). `Committer` writes its journal; the host activates and retires it.
 *
 * 1. `onStart` finishes before any other turn begins; `blockConcurrencyWhile` holds the rest back.
 * 2. Turns interleave at their awaits, as in the reference system; nothing else is concurrent.
 * 3. Nothing leaves before what it depends on is stored: every output goes through
 *    `Committer.afterCommit`.
 * 4. A discarded agent is inert: no output, no ack, no commit; waiters are rejected with
 *    `AgentDiscarded`. A destroyed agent is discarded too, but calls that run on it are answered
 *    (`destroyAgent`).
 */
import type { AgentId } from "../../schemas/Address.ts";
import type { Cause } from "../../schemas/JournalEvent.ts";
import type { Agent } from "../agent/Agent.ts";
import type { AgentStaticOptions } from "../agent/AgentStaticOptions.ts";
import { AgentApis } from "../agent/AgentApis.ts";
import type { AgentContext } from "../agent/AgentContext.ts";
import type { AgentRuntime } from "../agent/AgentRuntime.ts";
import { RuntimeContext } from "../agent/RuntimeContext.ts";
import type { Connection, ConnectionMessage } from "../connection/Connection.ts";
import { AgentDestroyed, AgentDiscarded } from "../errors/errors.ts";
import type { Abortable, AbortSource } from "../lazyFetch/AbortSource.ts";
import type { Observability } from "../telemetry/observability.ts";
import type { AgentDatabase, OpenTransaction, SqlResult, SqlValue } from "../database/Databases.ts";
import type { LogShape } from "../telemetry/Log.ts";
import { NO_MCP } from "../mcp/McpClients.ts";
import type { MCPClientManager } from "../mcp/MCPClientManager.ts";
import type { TimeShape } from "../time/Time.ts";
import { sleep } from "../time/sleep.ts";
import { AgentSql } from "./AgentSql.ts";
import { AgentSockets } from "./AgentSockets.ts";
import type { AgentImage } from "../journal/AgentImage.ts";
import type { ActiveAgentParts } from "./AgentParts.ts";
import type { AgentTurns, Undone } from "../turn/AgentTurns.ts";
import type { Committer } from "../turn/Committer.ts";
import { destroyAgent } from "./destroyAgent.ts";
import { emitEvent } from "../telemetry/emitEvent.ts";
import { ConcurrencyBlock, type Block } from "../turn/ConcurrencyBlock.ts";
import { LiveState, type StateWrite } from "../turn/LiveState.ts";
import { Lanes } from "./Lanes.ts";
import { interruptCalls, type RunningCalls } from "./runningCalls.ts";
import { RunningCode } from "./RunningCode.ts";
import { routeError, runAfterCommit, runBlock, runTurn } from "./runTurn.ts";
import type { MailLane } from "../outgoing/MailLane.ts";
import { AgentMcpServers } from "../mcp/AgentMcpServers.ts";
import type { OutgoingLane } from "../outgoing/OutgoingLane.ts";
import type { QueueLane } from "../queue/QueueLane.ts";
import { Keeping } from "./Keeping.ts";
import type { Scheduler } from "../schedule/Scheduler.ts";
import type { SignalLane } from "../workflow/SignalLane.ts";
import { Suspects } from "../input/Suspects.ts";
import type { CommitTriggers } from "../turn/CommitTriggers.ts";
import type { CeilingName } from "../turn/Ceilings.ts";
import { Turn, type StepScope, type TurnContext } from "../turn/Turn.ts";
import { StepWrites } from "../step/stepErrors.ts";
import type { TurnEnd } from "../turn/TurnEnd.ts";
import { withItem, without } from "../collections/sparse.ts";
import { messageOf } from "../errors/thrown.ts";

export class ActiveAgent implements AgentRuntime, AgentTurns {
  readonly id: AgentId;
  readonly image: AgentImage;
  readonly database: AgentDatabase;
  readonly time: TimeShape;
  readonly committer: Committer;
  readonly ctx: AgentContext;
  readonly lanes: Lanes;
  readonly mcpServers: AgentMcpServers;
  readonly sockets: AgentSockets;
  readonly keeping = new Keeping(this);
  agent!: Agent<unknown>; // the user's object; set when its constructor has run
  /** Turns running or waiting for their commit, and `waitUntil` promises. */
  busy = 0;
  readonly startedMs: number; // wall clock: when it was activated
  lastActiveMs: number; // monotonic: when a turn last began or ended
  discarded = false;
  destroyed = false; // its `destroyed` event is stored
  kept: Set<symbol> | undefined; // `keepAlive()` holds that are not released
  aborted: string | undefined; // the reason, if `abort` discarded it
  readonly parts: ActiveAgentParts<ActiveAgent>;
  readonly #state: LiveState;
  runningCalls: RunningCalls | undefined; // undefined: none
  readonly code = new RunningCode(this);
  readonly #gate = new ConcurrencyBlock(this.code);
  #destroying: Promise<void> | undefined;
  #apis: AgentApis | undefined;
  #suspects: Suspects | undefined;
  readonly #sql = new AgentSql(this);

  constructor(parts: ActiveAgentParts<ActiveAgent>) {
    this.parts = parts;
    this.image = parts.image;
    this.id = parts.image.id;
    this.database = parts.database;
    this.time = parts.time;
    this.startedMs = parts.time.nowMs();
    this.lastActiveMs = parts.time.monotonicMs();
    this.#state = new LiveState(this, parts.outlet);
    this.sockets = new AgentSockets(this, parts.outlet);
    this.committer = parts.makeCommitter(this);
    this.lanes = new Lanes(this, parts);
    this.mcpServers = new AgentMcpServers(this, parts.mcp ?? NO_MCP);
    this.ctx = new RuntimeContext(this);
  }

  /** Constructs the user's object and runs `onStart` (rule 1). Rejects with what they throw. */
  async start(props: unknown): Promise<void> {
    const turn = new Turn({ cause: { kind: "start" }, owner: this });
    this.lanes.load();
    this.mcpServers.restore();
    await this.run(turn, async () => {
      this.agent = new this.parts.agentClass(this.ctx, this.parts.env as never);
      await this.#gate.current;
      await this.lanes.recoverFibers();
      const started = this.agent.onStart(props as never);
      this.mcpServers.wake();
      await started;
    });
    if (!this.committer.idle || this.discarded) await this.committer.flush(turn);
  }

  get log(): LogShape {
    return this.parts.log;
  }
  get apis(): AgentApis {
    return (this.#apis ??= new AgentApis(this));
  }
  get suspects(): Suspects {
    return (this.#suspects ??= new Suspects(this, this.parts.unbegun));
  }
  get options(): AgentStaticOptions {
    return this.parts.agentClass.options ?? {};
  }

  /** Whether it may hibernate now. */
  get idle(): boolean {
    return this.busy === 0 && this.committer.idle && !this.keeping.unstored && !this.#gate.closed;
  }

  /** Runs user code as a turn. Resolves or rejects as `f` does, when the turn has ended. */
  run<A>(turn: Turn, f: () => A | Promise<A>): Promise<A> {
    return runTurn(this, turn, f);
  }

  inTurn<A>(turn: Turn, f: () => A): A {
    return this.code.inTurn(turn, f);
  }

  /** Resolves when no `blockConcurrencyWhile` holds turns back. */
  async unblocked(): Promise<void> {
    await this.#gate.open();
    await this.#destroying?.catch(() => undefined);
    await this.unlessDiscarded();
  }
  /** Resolves when a job may begin: no turn is held back, and no commit waits for running ones. */
  async mayBegin(): Promise<void> {
    for (;;) {
      await this.unlessDiscarded();
      if (this.isBlocked) await this.unblocked();
      else if (this.committer.holding)
        await new Promise<void>((resolve) => this.committer.whenReleased(resolve));
      else return;
    }
  }
  get isBlocked(): boolean {
    return this.#gate.closed || this.#destroying !== undefined;
  }
  /** Discarded, not destroyed: its failures are not reported; the next owner repeats the work. */
  get isLost(): boolean {
    return this.discarded && !this.destroyed;
  }

  /** As `AgentTurns.handleError`. `of`: the connection that failed, if the error is its own. */
  handleError(turn: Turn, error: unknown, of?: Connection): Promise<boolean> {
    return routeError(this, turn, error, of);
  }
  undo(turn: Turn, failure: string): Promise<Undone> {
    return this.apis.steps.undo(turn, failure);
  }
  /** Rejects with `AgentDiscarded` once the agent is discarded. */
  async unlessDiscarded(): Promise<void> {
    if (this.discarded) throw new AgentDiscarded();
  }
  /** Resolves after `ms`, unless the agent is discarded meanwhile. */
  async sleep(ms: number): Promise<void> {
    await sleep(this.time, ms);
    await this.unlessDiscarded();
  }
  touch(): void {
    this.committer.touch(this.turn());
  }

  /** The triggers that the next event needs at the broker (`Triggers`). */
  takeTriggers(turns: ReadonlySet<Turn>): CommitTriggers | undefined {
    // Writes of an open transaction are not part of this commit: they may be rolled back.
    const inTransaction = this.#sql.leavesOutTriggers();
    this.keeping.store(turns, inTransaction);
    return inTransaction ? undefined : this.lanes.takeTriggers();
  }

  /** Begins no more jobs. Running ones continue; waiting ones are stored for the next owner. */
  rest(): void {
    this.keeping.close();
    this.lanes.stop();
  }

  /** Leaves memory in order, once nothing runs. Nothing is lost. */
  retire(): void {
    this.discarded = true;
    this.keeping.close();
    this.mcpServers.stop();
    this.lanes.retire();
  }

  /** Rule 4. */
  discard(): void {
    if (this.discarded) return;
    this.retire();
    this.committer.abandon();
    this.database.close();
    if (!this.destroyed) interruptCalls(this);
  }

  get scheduler(): Scheduler {
    return this.lanes.scheduler;
  }
  get queue(): QueueLane {
    return this.lanes.queue;
  }
  get mail(): MailLane {
    return this.lanes.mail;
  }
  get signals(): SignalLane {
    return this.lanes.signals;
  }
  get outgoing(): OutgoingLane {
    return this.lanes.outgoing;
  }
  get leaving(): Abortable {
    return this.lanes.leaving;
  }
  get observability(): Observability {
    return this.parts.observability;
  }
  emit(type: string, payload: Readonly<Record<string, unknown>>): void {
    // Undefined while its constructor runs.
    const agent = this.agent as Agent<unknown> | undefined;
    emitEvent(this, (agent ?? this.parts).observability, type, payload);
  }

  report(turn: Turn, end: TurnEnd): void {
    this.parts.onTurnEnd(turn, end);
  }
  get state(): unknown {
    return this.#state.value;
  }
  get hasState(): boolean {
    return this.#state.isSet;
  }
  writeState(next: unknown, options: StateWrite): void {
    this.#assertLive();
    if (options.isInitial !== true) this.assertMayWrite();
    this.#state.write(next, options);
  }
  query(sql: string, params: ReadonlyArray<SqlValue | boolean>, isLimited = false): SqlResult {
    this.#assertLive();
    return this.#sql.query(sql, params, isLimited);
  }
  transaction<A>(f: () => A): A {
    this.#assertLive();
    this.assertMayWrite();
    return this.#sql.transaction(f);
  }
  beginTransaction(block: Block): OpenTransaction {
    this.#assertLive();
    this.assertMayWrite();
    return this.#sql.begin(block);
  }
  connections(): Iterable<Connection> {
    return this.sockets.values();
  }
  broadcast(message: ConnectionMessage, except: ReadonlyArray<string>): void {
    this.sockets.broadcast(message, except);
  }
  currentCause(): Cause | undefined {
    return this.code.turn?.cause;
  }
  currentConnection(): Connection | undefined {
    return this.code.turn?.connection;
  }

  async asTurn<A>(cause: Cause, f: () => Promise<A>): Promise<A> {
    if (this.discarded) throw new AgentDiscarded();
    return this.run(this.newTurn({ ...cause, time: this.time.nowMs() }), f);
  }

  inBackground<A>(f: () => A, cause: Cause = { kind: "background" }): A {
    return this.code.inTurn(this.newTurn(cause), f);
  }

  get mcp(): MCPClientManager {
    return this.mcpServers.manager;
  }
  rejects(): void {
    this.turn().rejected = true;
  }
  get abandoned(): AbortSource {
    return this.turn().abort;
  }
  afterCommit(f: () => unknown): void {
    const turn = this.turn();
    this.committer.afterCommit(() => this.runDeferred(turn, f));
  }
  flush(): Promise<void> {
    const turn = this.turn();
    if (turn.givenUp) return Promise.reject(turn.givenUp);
    // A commit may wait for the end of this step (`Holds`, rule 2), so the step can't wait for one.
    return this.currentStep === undefined ? this.keeping.flush(turn) : Promise.resolve();
  }
  waitUntil(promise: Promise<unknown>): void {
    const done = Promise.resolve(promise); // users' code may pass any value
    this.busy++;
    done
      .catch((error: unknown) =>
        this.log.error("a waitUntil promise rejected", { error: messageOf(error) }),
      )
      .finally(() => this.busy--);
  }
  keepAlive(): () => void {
    const hold = Symbol("keepAlive");
    this.kept = withItem(this.kept, hold);
    return () => void (this.kept = without(this.kept, hold));
  }

  destroy(): Promise<void> {
    if (this.currentStep !== undefined) this.assertMayWrite();
    const refusal = this.turn().givenUp;
    if (refusal !== undefined) return Promise.reject(refusal);
    if (this.#destroying === undefined) {
      this.#destroying = destroyAgent(this, this.turn(), this.parts);
      this.waitUntil(this.#destroying);
    }
    return this.#destroying;
  }

  blockConcurrencyWhile<A>(f: () => Promise<A>): Promise<A> {
    return this.#gate.while(() => runBlock(this, f));
  }
  attach(connection: Connection): void {
    this.sockets.attach(connection);
  }
  abort(reason: string): void {
    if (this.discarded) return; // rule 4: `onAbort` would end its successor
    this.aborted = reason;
    this.discard();
    this.parts.onAbort(reason);
  }

  /** JSON text of the live state. */
  get stateText(): string | undefined {
    return this.#state.text;
  }

  /** The turn of the running code. Code outside of a turn gets a new one. */
  turn(): Turn {
    return this.code.turn ?? this.newTurn({ kind: "background" });
  }
  /** The step whose function runs. */
  get currentStep(): StepScope | undefined {
    return this.code.step;
  }
  assertMayWrite(): void {
    this.assertRunning();
    const step = this.currentStep;
    if (step !== undefined) throw new StepWrites({ step: step.name });
  }

  newTurn(cause: Cause, context: TurnContext = {}): Turn {
    return new Turn({ cause, owner: this, ...context });
  }
  runDeferred(turn: Turn, f: () => unknown): void {
    runAfterCommit(this, turn, f);
  }
  ceiling(name: CeilingName): number {
    return this.parts.ceiling(name);
  }
  assertRunning(): void {
    const { givenUp } = this.code.turn ?? {};
    if (givenUp !== undefined) throw givenUp;
    if (this.destroyed) throw new AgentDestroyed();
    if (this.discarded) throw new AgentDiscarded();
  }
  #assertLive(): void {
    const ends = this.#destroying !== undefined && !this.committer.awaits(this.turn());
    if (this.destroyed || (ends && !this.discarded)) throw new AgentDestroyed();
    this.assertRunning();
  }
}
