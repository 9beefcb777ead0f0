/**
 * Two views of an agent in memory, for the code below the runtime. `ActiveAgent` implements both. A
 * class that needs its agent declares the members that it uses, most of them picked from here, so
 * that only `core/runtime` knows the whole agent.
 *
 * `AgentTurns` is for code that runs turns: the mailbox, jobs, schedules. `AgentWork` is for code
 * that runs inside turns: the agent's API, fibers, workflows, MCP servers, sub-agents.
 */
import type { AgentId } from "../../schemas/Address.ts";
import type { Cause } from "../../schemas/JournalEvent.ts";
import type { Connection } from "../connection/Connection.ts";
import type { AgentDatabase, SqlResult, SqlValue } from "../database/Databases.ts";
import type { AgentImage } from "../journal/AgentImage.ts";
import type { LogShape } from "../telemetry/Log.ts";
import type { TimeShape } from "../time/Time.ts";
import type { Committer } from "./Committer.ts";
import type { Turn } from "./Turn.ts";

export interface AgentTurns {
  readonly id: AgentId;
  readonly time: TimeShape;
  readonly log: LogShape;
  /** What the journal says of the agent. */
  readonly image: AgentImage;
  readonly database: AgentDatabase;
  readonly committer: Committer;
  /** Wall clock: when the agent came to memory. */
  readonly startedMs: number;
  /** True once the agent is inert: no output, no ack and no commit follows. */
  readonly discarded: boolean;
  /** The turn that the running code belongs to; code outside of any gets one of its own. */
  turn(): Turn;
  newTurn(cause: Cause, context?: { connection?: Connection; request?: Request }): Turn;
  /** Runs user code as a turn. Settles as `f` does, when the turn has ended. */
  run<A>(turn: Turn, f: () => A | Promise<A>): Promise<A>;
  /** Routes an error of user code to `onError`. True when `onError` returned: it is suppressed. */
  handleError(turn: Turn, error: unknown, of?: Connection): Promise<boolean>;
  /** Rejects with `AgentDiscarded` once the agent is discarded. */
  unlessDiscarded(): Promise<void>;
  /** Resolves when a job may begin. Rejects with `AgentDiscarded`. */
  mayBegin(): Promise<void>;
  /** Resolves after `ms`. Rejects with `AgentDiscarded` when the agent was discarded meanwhile. */
  sleep(ms: number): Promise<void>;
  /** Throws `AgentDiscarded`, or `StepWrites` in the function of a step. */
  assertMayWrite(): void;
  /** The running turn wrote, other than by the agent's own SQL: the next commit takes it. */
  touch(): void;
  /** Drops the agent from memory without committing what is pending. */
  abort(reason: string): void;
  /** Keeps the agent in memory until the promise settles; a rejection is logged. */
  waitUntil(promise: Promise<unknown>): void;
  /** Sends an observability event. */
  emit(type: string, payload: Readonly<Record<string, unknown>>): void;
}

export interface AgentWork extends Pick<
  AgentTurns,
  "id" | "time" | "log" | "abort" | "waitUntil" | "emit"
> {
  /**
   * Records the write and runs it. Throws SQLite's own error. `isLimited`: the SQL is the user's,
   * and `WriteLimits` may refuse it.
   */
  query(sql: string, params: ReadonlyArray<SqlValue | boolean>, isLimited?: boolean): SqlResult;
  /** Runs `f` in one transaction. When `f` throws, its SQL is undone and the error is rethrown. */
  transaction<A>(f: () => A): A;
  /** Runs `f` once everything written so far is stored; its failure goes to `onError`. */
  afterCommit(f: () => unknown): void;
  /** Resolves when everything written so far is stored. */
  flush(): Promise<void>;
  /** The cause of the running turn, where that is a turn of this agent. */
  currentCause(): Cause | undefined;
  /** Runs `f` apart from the running turn: its writes, then and later, belong to no input. */
  inBackground<A>(f: () => A, cause?: Cause): A;
  /** Runs `f` as a turn of its own, which is no durable input. Settles as `f` does. */
  asTurn<A>(cause: Cause, f: () => Promise<A>): Promise<A>;
  /** Fires when the agent leaves memory. */
  readonly leaving: AbortSignal;
  /** Keeps the agent from hibernating until the returned function is called. */
  keepAlive(): () => void;
}
