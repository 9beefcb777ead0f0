/**
 * An agent in memory, for code that runs inside its turns: the agent's API, fibers, workflows, MCP
 * servers, sub-agents. It knows neither turns nor commits (`AgentTurns`), so that users' types that
 * lead here lead no further.
 */
import type { AgentId } from "../../schemas/Address.ts";
import type { Cause } from "../../schemas/JournalEvent.ts";
import type { SqlResult, SqlValue } from "../database/Databases.ts";
import type { Abortable, AbortSource } from "../lazyFetch/AbortSource.ts";
import type { LogShape } from "../telemetry/Log.ts";
import type { TimeShape } from "../time/Time.ts";

export interface AgentWork {
  readonly id: AgentId;
  readonly time: TimeShape;
  readonly log: LogShape;
  /**
   * Runs SQL and records its writes. Throws SQLite's own error. `isLimited`: the SQL is the user's,
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
  /** Runs `f` as a turn of its own, without a durable input. Settles as `f` does. */
  asTurn<A>(cause: Cause, f: () => Promise<A>): Promise<A>;
  /** Fires when nobody waits for the running turn any more. Outside of a turn it never fires. */
  readonly abandoned: AbortSource;
  /** Fires when the agent leaves memory. */
  readonly leaving: Abortable;
  /** Keeps the agent from hibernating until the returned function is called. */
  keepAlive(): () => void;
  /** Drops the agent from memory without committing what is pending. */
  abort(reason: string): void;
  /** Keeps the agent in memory until the promise settles; a rejection is logged. */
  waitUntil(promise: Promise<unknown>): void;
  /** Sends an observability event. */
  emit(type: string, payload: Readonly<Record<string, unknown>>): void;
}
