/**
 * The SQL of an agent: runs it, records a turn's writes, and detects changes of the runtime's own
 * tables (schedules, queue), which users may read and write like their own.
 */
import { AgentDiscarded } from "../errors/errors.ts";
import {
  LocalImageCorrupt,
  TooManyRows,
  type OpenTransaction,
  type SqlResult,
  type SqlValue,
} from "../database/Databases.ts";
import type { Scheduler } from "../schedule/Scheduler.ts";
import type { AgentTurns } from "../turn/AgentTurns.ts";
import { ceilingReached } from "../turn/Ceilings.ts";
import type { Block, BlockCode } from "../turn/ConcurrencyBlock.ts";
import type { StepScope } from "../turn/Turn.ts";
import type { WriteLimits } from "../turn/WriteLimits.ts";

const DROPS = /\bdrop\b|\balter\b/i;
/**
 * Matches one statement whose only effect is an empty table or an index, the same each time it
 * runs. `AS SELECT` and `AS VALUES` are excluded because they fill the table, and a semicolon in
 * the middle because it may begin another statement.
 */
const MAKES_TABLE =
  /^\s*create\s+(?:table|(?:unique\s+)?index)\s+if\s+not\s+exists\s(?!.*\b(?:select|values)\b)[^;]*;?\s*$/is;

const JOINED_ROLLBACK =
  "a transaction was rolled back in which another event had used sql, kv or transactionSync";

interface SqlAgent extends Pick<
  AgentTurns,
  "abort" | "assertMayWrite" | "ceiling" | "committer" | "database" | "discarded" | "touch" | "turn"
> {
  /** The step whose function runs. */
  readonly currentStep: StepScope | undefined;
  readonly code: Pick<BlockCode, "block">;
  readonly parts: { readonly limits: Pick<WriteLimits, "uncommittedMax" | "sqlRefusal"> };
  readonly scheduler: Pick<Scheduler, "table" | "known">;
  readonly lanes: {
    /** Cached facts of the runtime's own tables may be rolled back. */
    forget(): void;
  };
}

/** A transaction that `begin` has begun. */
interface Begun {
  /** The open transaction around it. */
  readonly around: Begun | undefined;
  /** The block that it is. */
  readonly block: Block;
  /** Code that is not part of it has used the database since (`JoinedTurns`). */
  joined: boolean;
}

export class AgentSql {
  /** Open transactions, nested. */
  private transactions = 0;
  /** The innermost of those that outlast a call. */
  private begun: Begun | undefined;
  /** A commit has left out the triggers, because a transaction was open. */
  private owesTriggers = false;

  constructor(private readonly agent: SqlAgent) {}

  /** A transaction is open: its writes may be rolled back, and are not part of a commit. */
  get inTransaction(): boolean {
    return this.transactions > 0;
  }

  /** For a commit: as `inTransaction`. The transaction's end then causes another commit. */
  leavesOutTriggers(): boolean {
    return (this.owesTriggers = this.inTransaction);
  }

  /**
   * `isLimited` is true for users' SQL, which `WriteLimits` bounds. The runtime's own records are
   * small and must not be refused.
   */
  query(sql: string, params: ReadonlyArray<SqlValue | boolean>, isLimited: boolean): SqlResult {
    const { agent } = this;
    if (isLimited && this.begun !== undefined) this.join();
    agent.scheduler.table.makeFor(sql);
    const rowsMax = isLimited ? agent.ceiling("sqlRowsMax") : undefined;
    if (agent.currentStep !== undefined) return this.read(sql, params, rowsMax);
    const { writes } = agent.database;
    if (isLimited) this.limit();
    try {
      const result = this.checked(() => agent.database.query(sql, params, rowsMax));
      // A statement that changed no page is not a write. A transaction's pages change at its end.
      if (agent.database.writes !== writes || (result.wrote && this.inTransaction)) this.wrote(sql);
      return result;
    } catch (error) {
      // If one of several statements failed, those before it stay applied.
      if (!agent.discarded && agent.database.writes !== writes) this.wrote(sql);
      throw this.refusalOf(error);
    } finally {
      agent.database.uncommittedBytesMax = Infinity;
    }
  }

  /** Runs SQL in the function of a step, where a write is rolled back and refused. */
  private read(
    sql: string,
    params: ReadonlyArray<SqlValue | boolean>,
    rowsMax: number | undefined,
  ): SqlResult {
    const { agent } = this;
    try {
      return this.checked(() =>
        agent.database.transaction(() => {
          const result = agent.database.query(sql, params, rowsMax);
          if (result.wrote) agent.assertMayWrite();
          return result;
        }),
      );
    } catch (error) {
      throw this.refusalOf(error);
    }
  }

  private limit(): void {
    const { database, parts } = this.agent;
    database.uncommittedBytesMax = parts.limits.uncommittedMax(this.agent.turn());
  }

  private refusalOf(error: unknown): unknown {
    const { database, parts, discarded } = this.agent;
    if (error instanceof TooManyRows)
      return ceilingReached("sqlRowsMax", this.agent.ceiling("sqlRowsMax"));
    if (discarded || !database.overflowed) return error;
    return parts.limits.sqlRefusal(this.agent.turn());
  }

  private wrote(sql: string): void {
    const { agent } = this;
    const turn = agent.turn();
    turn.wroteSql(sql);
    if (DROPS.test(sql)) this.forgetTables();
    agent.scheduler.known.wrote(sql);
    // `onStart` runs at the next start and creates it again.
    const remade = turn.cause.kind === "start" && MAKES_TABLE.test(sql);
    if (!this.join()) agent.committer.touch(turn, { remade });
  }

  /**
   * Joins the running turn to the open transaction of other code. False: it needs not, because
   * there is none, or the running code is part of it.
   */
  private join(): boolean {
    const { committer, code } = this.agent;
    let open = this.begun;
    if (open === undefined || code.block?.isIn(open.block) === true) return false;
    open.joined = true;
    while (open.around !== undefined) open = open.around;
    const { block } = open;
    committer.join(this.agent.turn(), () => code.block?.isIn(block) === true);
    return true;
  }

  /** A transaction has ended. `writes`: of the database, before it. */
  private over(writes: number): void {
    const { agent } = this;
    agent.database.uncommittedBytesMax = Infinity;
    this.transactions--;
    // A flush inside the transaction took only the writes from before it.
    if (agent.database.writes === writes && !this.owesTriggers) return;
    this.owesTriggers &&= this.inTransaction;
    if (!this.join()) agent.touch();
  }

  transaction<A>(f: () => A): A {
    const { agent } = this;
    // Written before the transaction, so that a rollback does not undo it.
    agent.scheduler.table.showRunning();
    this.transactions++;
    const { writes } = agent.database;
    try {
      return this.checked(() =>
        agent.database.transaction(() => {
          const result = f();
          // The transaction's pages are written at its end.
          this.limit();
          return result;
        }),
      );
    } catch (error) {
      this.forgetTables();
      throw this.refusalOf(error);
    } finally {
      this.over(writes);
    }
  }

  /** A transaction that is still open after the call, and is the block. */
  begin(block: Block): OpenTransaction {
    const { agent } = this;
    agent.scheduler.table.showRunning();
    const { writes } = agent.database;
    const open = this.checked(() => agent.database.beginTransaction());
    this.transactions++;
    const around = this.begun;
    const begun: Begun = { around, block, joined: false };
    this.begun = begun;
    const end = (): void => {
      this.begun = around;
      this.over(writes);
      if (around === undefined) agent.committer.releaseJoined();
      else around.joined ||= begun.joined;
    };
    return {
      commit: () => {
        agent.assertMayWrite();
        this.limit();
        try {
          this.checked(open.commit);
        } catch (error) {
          throw this.refusalOf(error);
        }
        end();
      },
      rollback: () => {
        if (begun.joined) agent.abort(JOINED_ROLLBACK);
        if (agent.discarded) return; // closing the database rolled it back
        this.checked(open.rollback);
        this.forgetTables();
        end();
      },
    };
  }

  /** A damaged local image only discards the agent from memory: the journal is complete. */
  private checked<A>(f: () => A): A {
    try {
      return f();
    } catch (error) {
      if (!(error instanceof LocalImageCorrupt)) throw error;
      this.agent.abort(error.message);
      throw new AgentDiscarded();
    }
  }

  /** Cached facts of the runtime's own tables may be rolled back. */
  private forgetTables(): void {
    this.agent.lanes.forget();
  }
}
