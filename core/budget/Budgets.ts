/**
 * The budgets of an agent: reserves before a call, settles after it. `cf_agents_budget_uses` has
 * what is used of each budget in its present period, `cf_agents_budget_spends` the reservations;
 * both are tables of the agent's own database, made with the first reservation.
 *
 * 1. A reservation is made with the turn's writes, and is therefore stored before any `fetch` of
 *    the agent leaves. Its key is the turn's input and the count of its calls, so a turn that runs
 *    again finds the reservation that it made. It reserves once and settles once, through any
 *    crash.
 * 2. The reservations of an input end in the commit in which it is done, including those of earlier
 *    runs that the last run did not repeat. What is not settled counts as spent, or is released if
 *    the input is dead.
 * 3. A turn of an input that is not durable does not run again. Its reservations end with it, as
 *    spent. If its host died, they are released when the agent is next activated.
 * 4. A reservation with a key of its own outlives its turn. It ends with its period, as spent.
 * 5. A budget counts each kind of period by itself: one name may have a limit an hour and another
 *    a day, or days of two time zones.
 *
 * Part of `Keeping`; `BudgetApi` is what `Agent` delegates to.
 */
import { checkOptions } from "../errors/checkOptions.ts";
import { shownValue } from "../errors/shownValue.ts";
import type { AgentDatabase, Queried, SqlValue } from "../database/Databases.ts";
import { numberOrNull } from "../database/nullable.ts";
import { tableExists } from "../database/tableExists.ts";
import type { CronShape } from "../schedule/Cron.ts";
import type { AgentMetrics } from "../telemetry/AgentMetrics.ts";
import type { AgentTurns } from "../turn/AgentTurns.ts";
import type { Turn } from "../turn/Turn.ts";
import {
  BudgetExceeded,
  type BudgetInfo,
  type BudgetPeriod,
  type Spend,
  type SpendOptions,
} from "./Budget.ts";

const USES = "cf_agents_budget_uses";
const SPENDS = "cf_agents_budget_spends";
/** What is spent is not put back with the agent. */
export const BUDGET_TABLES = [USES, SPENDS];
const DDL = [
  `CREATE TABLE IF NOT EXISTS ${USES} (
  name TEXT NOT NULL,
  per TEXT NOT NULL,
  timezone TEXT NOT NULL,
  resets_at INTEGER,
  used REAL NOT NULL,
  limit_amount REAL NOT NULL,
  PRIMARY KEY (name, per, timezone)
)`,
  `CREATE TABLE IF NOT EXISTS ${SPENDS} (
  key TEXT PRIMARY KEY NOT NULL,
  budget TEXT NOT NULL,
  per TEXT NOT NULL,
  timezone TEXT NOT NULL,
  resets_at INTEGER,
  amount REAL NOT NULL,
  status TEXT NOT NULL,
  turn TEXT,
  durable INTEGER NOT NULL
)`,
];

/** When each period begins, as a cron expression. */
const BEGINS: Readonly<Record<Exclude<BudgetPeriod, "ever">, string>> = {
  minute: "* * * * *",
  hour: "0 * * * *",
  day: "0 0 * * *",
  week: "0 0 * * 1",
  month: "0 0 1 * *",
};
const OPTIONS: ReadonlySet<string> = new Set<keyof SpendOptions>([
  "limit", "per", "timezone", "key",
]); // prettier-ignore
/** The name is a label of a metric, and is in each error. */
const NAME_LENGTH_MAX = 64;
/** Budgets of one agent at most. Their names come from the code, never from users. */
const BUDGETS_MAX = 100;
/** Of a limit: 0.1 three times fit into 0.3, though their sum as floats is larger. */
const ROUNDING = 1e-9;
const KEY_LENGTH_MAX = 256; // it is in a row for as long as its period

/** The agent that has them. */
export interface BudgetAgent
  extends Queried, Pick<AgentTurns, "committer" | "database" | "time" | "turn" | "emit" | "id"> {
  /** The step whose function runs. */
  readonly currentStep: unknown;
  readonly parts: {
    readonly jobs: { readonly cron: CronShape };
    readonly metrics?: Pick<AgentMetrics, "budgetSpent" | "budgetRefused"> | undefined;
  };
}

/** What counts by itself (rule 5). */
interface Counter {
  readonly budget: string;
  readonly per: BudgetPeriod;
  /** Empty for UTC. */
  readonly timezone: string;
}

/** Selects a counter's row in `USES`. */
const COUNTER = "name = ? AND per = ? AND timezone = ?";
const keyOfCounter = ({ budget, per, timezone }: Counter) => [budget, per, timezone] as const;

interface SpendRow extends Counter {
  readonly key: string;
  readonly resetsAt: number | null;
  readonly amount: number;
  readonly status: Spend["status"];
}

export class Budgets {
  /** The ids of turns that reserved, and their numbers of calls (rule 1). */
  private readonly calls = new WeakMap<Turn, { readonly id: string; count: number }>();
  /** Turns without a durable input that have reserved (rule 3). */
  private readonly open = new Set<Turn>();
  /** Whether the tables may exist: only this class makes them, and users may drop them. */
  private made: boolean;
  /** Whether writes are in a commit that is being made, or reported by the caller as its turn's. */
  private quiet: boolean;

  /** Whether there may be reservations of turns that died with their host (rule 3). */
  private mayBeLost: boolean;

  /** Whether the database may have their tables (`AgentDatabase.mayHaveTable`). */
  static mayBeIn(database: Pick<AgentDatabase, "mayHaveTable">): boolean {
    return database.mayHaveTable(USES);
  }

  /** Made at the first use after the agent's activation. `inCommit`: that use is a commit. */
  constructor(
    private readonly agent: BudgetAgent,
    inCommit: boolean,
  ) {
    this.made = Budgets.mayBeIn(agent.database);
    this.made = this.exists;
    this.mayBeLost = this.made;
    this.quiet = inCommit;
    if (inCommit) this.releaseLost();
    this.quiet = false;
  }

  /** Not in the function of a step, which does not write. */
  private releaseLost(): void {
    if (!this.mayBeLost) return;
    this.mayBeLost = false;
    const sql = `SELECT key FROM ${SPENDS} WHERE durable = 0 AND status = 'reserved'`;
    for (const [key] of this.read(sql)) this.settle(String(key), 0, "released");
    this.forget("durable = 0", []);
  }

  /** Throws `TypeError` or `RangeError` for invalid arguments, and `BudgetExceeded`. */
  spend(budget: string, amount: number, options: SpendOptions): Spend {
    const { agent } = this;
    check(budget, amount, options);
    const { limit, per = "day", timezone = "" } = options;
    const counter = { budget, per, timezone };
    const turn = agent.turn();
    const own = options.key !== undefined;
    this.releaseLost();
    const { id, key } = own ? { id: null, key: options.key } : this.keyOf(turn);
    // Rule 4.
    if (this.exists) this.forget("turn IS NULL AND resets_at <= ?", [agent.time.nowMs()]);
    const known = this.find(key);
    if (known !== undefined) {
      if (known.budget !== budget)
        throw new TypeError(
          `the key "${key}" belongs to a reservation of the budget "${known.budget}", not of "${budget}"`,
        );
      return this.handle(key, known);
    }
    const resetsAt = this.endOf(counter);
    const used = this.usedOf(counter, resetsAt);
    if (used + amount - limit > limit * ROUNDING) {
      agent.parts.metrics?.budgetRefused(agent.id.class, budget);
      agent.emit("budget:refused", { budget, amount, used, limit });
      throw new BudgetExceeded({ budget, amount, used, limit, resetsAt });
    }
    this.make(counter);
    agent.query(
      `INSERT OR REPLACE INTO ${USES} (name, per, timezone, resets_at, used, limit_amount) VALUES (?, ?, ?, ?, ?, ?)`,
      [...keyOfCounter(counter), resetsAt, used + amount, limit],
    );
    agent.query(
      `INSERT INTO ${SPENDS} (key, budget, per, timezone, resets_at, amount, status, turn, durable) VALUES (?, ?, ?, ?, ?, ?, 'reserved', ?, ?)`,
      [key, ...keyOfCounter(counter), resetsAt, amount, id, Number(own || turn.durable)],
    );
    return this.handle(key, counter);
  }

  list(): BudgetInfo[] {
    if (this.agent.currentStep === undefined) this.releaseLost();
    return this.infos("TRUE", []);
  }

  private infos(which: string, params: ReadonlyArray<SqlValue>): BudgetInfo[] {
    if (!this.exists) return [];
    const nowMs = this.agent.time.nowMs();
    return this.read(
      `SELECT name, per, resets_at, used, limit_amount FROM ${USES} WHERE ${which} ORDER BY name, per, timezone`,
      params,
    ).map(([budget, per, at, used, limit]) => {
      const resetsAt = numberOrNull(at);
      const isOver = resetsAt !== null && resetsAt <= nowMs;
      return {
        budget: String(budget),
        per: String(per) as BudgetPeriod,
        used: isOver ? 0 : Number(used),
        limit: Number(limit),
        resetsAt: isOver ? null : resetsAt,
      };
    });
  }

  /** Rule 2, in a commit with which the inputs of these turns are done or dead. */
  store(turns: ReadonlyArray<Turn>): void {
    for (const turn of turns) this.end(turnId(turn), turn.outcome?.dead === true);
  }

  /** A turn without a durable input has ended (rule 3). */
  ended(turn: Turn): void {
    const calls = this.calls.get(turn);
    if (calls === undefined || !this.open.delete(turn)) return;
    this.end(calls.id, false);
    this.agent.committer.touch(turn);
  }

  private end(id: string, isDead: boolean): void {
    if (!this.exists) return;
    this.quiet = true;
    const sql = `SELECT key, amount FROM ${SPENDS} WHERE turn = ? AND status = 'reserved'`;
    for (const [key, amount] of this.read(sql, [id]))
      this.settle(String(key), isDead ? 0 : Number(amount), isDead ? "released" : "settled");
    this.forget("turn = ?", [id]);
    this.quiet = false;
  }

  private handle(key: string, counter: Counter): Spend {
    const { budget } = counter;
    const row = (): SpendRow | undefined => this.find(key);
    // Ended with its turn, or its period.
    const gone = { amount: 0, status: "settled" } as const;
    const left = (): number => {
      const [info] = this.infos(COUNTER, keyOfCounter(counter));
      return info === undefined ? 0 : Math.max(0, info.limit - info.used);
    };
    const settle = (actual: number, status: Spend["status"]): boolean => {
      checkAmount(actual, `settle of the budget "${budget}"`);
      return row()?.status === "reserved" && this.settle(key, actual, status);
    };
    return {
      key,
      budget,
      get amount() {
        return (row() ?? gone).amount;
      },
      get status() {
        return (row() ?? gone).status;
      },
      get remaining() {
        return left();
      },
      settle: (actual) => settle(actual, "settled"),
      release: () => settle(0, "released"),
    };
  }

  private settle(key: string, actual: number, status: Spend["status"]): boolean {
    const row = this.find(key);
    if (row === undefined) return false;
    const { agent } = this;
    this.write(`UPDATE ${SPENDS} SET amount = ?, status = ? WHERE key = ?`, [actual, status, key]);
    // The count of a period that is over is gone.
    this.write(`UPDATE ${USES} SET used = max(0, used + ?) WHERE ${COUNTER} AND resets_at IS ?`, [
      actual - row.amount,
      ...keyOfCounter(row),
      row.resetsAt,
    ]);
    agent.parts.metrics?.budgetSpent(agent.id.class, row.budget, actual);
    agent.emit("budget:spent", { budget: row.budget, amount: actual });
    return true;
  }

  private keyOf(turn: Turn): { readonly id: string; readonly key: string } {
    const fresh = { id: turn.durable ? turnId(turn) : this.agent.time.id(), count: 0 };
    const calls = this.calls.get(turn) ?? fresh;
    this.calls.set(turn, calls);
    if (!turn.durable && turn.running) this.open.add(turn);
    return { id: calls.id, key: `${calls.id} ${++calls.count}` };
  }

  /**
   * When the present period ends. If the clock goes back to before the start of a period that has
   * begun (after a correction, or on another host), the previous period does not begin again.
   */
  private endOf(counter: Counter): number | null {
    const { per, timezone } = counter;
    if (per === "ever") return null;
    const { cron } = this.agent.parts.jobs;
    const next = (fromMs: number) => cron.next(BEGINS[per], fromMs, timezone || undefined);
    const end = next(this.agent.time.nowMs());
    if (!this.exists) return end;
    const sql = `SELECT resets_at FROM ${USES} WHERE ${COUNTER} AND resets_at > ?`;
    const later = this.read(sql, [...keyOfCounter(counter), end])[0]?.[0];
    return later !== undefined && later === next(end) ? later : end;
  }

  private usedOf(counter: Counter, resetsAt: number | null): number {
    if (!this.exists) return 0;
    const sql = `SELECT used FROM ${USES} WHERE ${COUNTER} AND resets_at IS ?`;
    return Number(this.read(sql, [...keyOfCounter(counter), resetsAt])[0]?.[0] ?? 0);
  }

  private find(key: string): SpendRow | undefined {
    if (!this.exists) return undefined;
    const sql = `SELECT budget, per, timezone, resets_at, amount, status FROM ${SPENDS} WHERE key = ?`;
    const row = this.read(sql, [key])[0];
    return (
      row && {
        key,
        budget: String(row[0]),
        per: String(row[1]) as BudgetPeriod,
        timezone: String(row[2]),
        resetsAt: numberOrNull(row[3]),
        amount: Number(row[4]),
        status: String(row[5]) as Spend["status"],
      }
    );
  }

  private make(counter: Counter): void {
    if (!this.exists) for (const ddl of DDL) this.agent.query(ddl, []);
    this.made = true;
    const count = Number(this.read(`SELECT count(*) FROM ${USES}`)[0]?.[0]);
    if (count < BUDGETS_MAX) return;
    const known = this.read(`SELECT 1 FROM ${USES} WHERE ${COUNTER}`, keyOfCounter(counter));
    if (known.length === 0)
      throw new RangeError(
        `an agent has at most ${BUDGETS_MAX} budgets and periods: name a budget after what is spent, not after who spends it`,
      );
  }

  private forget(which: string, params: ReadonlyArray<SqlValue>): void {
    const found = this.read(`SELECT 1 FROM ${SPENDS} WHERE ${which} LIMIT 1`, params);
    if (found.length > 0) this.write(`DELETE FROM ${SPENDS} WHERE ${which}`, params);
  }

  private write(sql: string, params: ReadonlyArray<SqlValue>): void {
    if (this.quiet) this.agent.database.query(sql, params);
    else this.agent.query(sql, params);
  }

  private read(sql: string, params: ReadonlyArray<SqlValue> = []) {
    return this.agent.database.query(sql, params).rows;
  }

  private get exists(): boolean {
    const { database } = this.agent;
    return this.made && tableExists(database, USES) && tableExists(database, SPENDS);
  }
}

/** The same in each run of a durable input. */
function turnId(turn: Turn): string {
  const { kind, id = "" } = turn.cause;
  return `${kind} ${id}`;
}

function check(budget: string, amount: number, options: SpendOptions): void {
  if (typeof budget !== "string" || budget === "" || budget.length > NAME_LENGTH_MAX)
    throw new TypeError(
      `A budget has a name of 1 to ${NAME_LENGTH_MAX} characters: spend("tokens", …)`,
    );
  checkAmount(amount, `the amount of the budget "${budget}"`);
  checkOptions(`spend("${budget}", …)`, options, OPTIONS);
  const { limit, per, key } = options;
  if (typeof limit !== "number" || !(limit >= 0))
    throw new TypeError(
      `the limit of the budget "${budget}" is ${shownValue(limit)}; it must be a number from 0`,
    );
  if (per !== undefined && per !== "ever" && !Object.hasOwn(BEGINS, per))
    throw new TypeError(
      `per of the budget "${budget}" is ${shownValue(per)}; it must be "minute", "hour", "day", "week", "month" or "ever"`,
    );
  if (key !== undefined && (typeof key !== "string" || key === "" || key.length > KEY_LENGTH_MAX))
    throw new TypeError(`a key of a reservation has 1 to ${KEY_LENGTH_MAX} characters`);
}

function checkAmount(amount: number, what: string): void {
  if (typeof amount !== "number" || !Number.isFinite(amount) || amount < 0)
    throw new TypeError(`${what} is ${shownValue(amount)}; it must be a number from 0`);
}
