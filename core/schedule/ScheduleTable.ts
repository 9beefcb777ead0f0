/**
 * `svc_agents_schedules` (`interface.md` §2.4): the agent's schedules as rows that users may read,
 * change and delete. The runtime's own reads and writes are not in the turn's record of SQL: the
 * event's `schedules` has them.
 *
 * Columns beyond the interface's: `due_ms` (the exact due time, of which `time` is the next full
 * second), `timezone`, `misfire`, `started_ms` (of the current run), `idempotent`.
 */
import { CountedRows } from "../turn/Ceilings.ts";
import type { AgentDatabase, SqlValue } from "../database/Databases.ts";
import { textOrNull } from "../database/nullable.ts";
import { tableExists } from "../database/tableExists.ts";
import type { RetryOptions } from "../retry/RetryOptions.ts";
import { finiteRetry } from "../retry/retryPolicy.ts";
import { SparseMap } from "../collections/sparse.ts";
import { OWN_ALARMS } from "./ownAlarms.ts";
import type { Misfire, Schedule, ScheduleCall, ScheduleType } from "./Schedule.ts";

export const SCHEDULE_TABLE = "svc_agents_schedules";

const NAMES_IT = new RegExp(SCHEDULE_TABLE, "i");
const MAKES_TIES = /\btrigger\b|\breferences\b/i;

const DDL = `CREATE TABLE IF NOT EXISTS ${SCHEDULE_TABLE} (
  id TEXT PRIMARY KEY NOT NULL DEFAULT (lower(hex(randomblob(9)))),
  callback TEXT,
  payload TEXT,
  type TEXT NOT NULL CHECK (type IN ('scheduled', 'delayed', 'cron', 'interval')),
  time INTEGER,
  delayInSeconds INTEGER,
  cron TEXT,
  intervalSeconds INTEGER,
  running INTEGER DEFAULT 0,
  retry_options TEXT,
  created_at INTEGER DEFAULT (unixepoch()),
  due_ms INTEGER,
  timezone TEXT,
  misfire TEXT,
  started_ms INTEGER,
  idempotent INTEGER
)`;

const COLUMNS =
  "id, callback, payload, type, time, delayInSeconds, cron, intervalSeconds, running, retry_options, due_ms, timezone, misfire, started_ms";

export interface ScheduleRow {
  readonly id: string;
  readonly callback: string;
  /** JSON text, or null. */
  readonly payload: string | null;
  readonly type: ScheduleType;
  readonly time: number | null;
  readonly delayInSeconds: number | null;
  readonly cron: string | null;
  readonly intervalSeconds: number | null;
  readonly running: boolean;
  /** JSON text. */
  readonly retryOptions: string | null;
  readonly dueMs: number | null;
  readonly timezone: string | null;
  readonly misfire: Misfire;
  readonly startedMs: number | null;
}

/** An agent's schedules, as fibers, workflows and the API use them (`Scheduler`). */
export interface SchedulesOfAgent {
  add(call: ScheduleCall): ScheduleRow;
  cancel(id: string): boolean;
  readonly table: Pick<ScheduleTable, "get" | "all">;
}

export class ScheduleTable {
  /** Undefined: not looked yet. Only `make` creates the table, before any SQL that names it. */
  private there: boolean | undefined;
  /** Undefined: not looked yet. */
  private tied: boolean | undefined;
  /**
   * Rows that were read or written since `forgetRows`, as the table has them; null: removed. A run
   * reads its row about five times. Kept only while nothing in the schema could change a row
   * unnoticed.
   */
  private readonly rows = new SparseMap<string, ScheduleRow | null>();
  /**
   * Marks of current runs, by id, that the table does not have yet. Most runs end before anybody
   * could look, which saves two writes of three. `showRunning` writes them.
   */
  private readonly unshown = new SparseMap<string, number>();

  private readonly counted = new CountedRows();

  /** `ceiling`: how many schedules there may be. Default: no limit. */
  constructor(
    private readonly database: AgentDatabase,
    private readonly ceiling = (): number => Infinity,
  ) {}

  /** Whether the table exists, without creating it or opening an empty database. */
  get exists(): boolean {
    if (this.there === undefined && this.database.isEmpty) return false;
    this.there ??= tableExists(this.database, SCHEDULE_TABLE);
    return this.there;
  }

  /** Whether SQL that wrote can have changed a row: it names the table, or a trigger does. */
  mayBeReachedBy(sql: string): boolean {
    if (!this.exists) return false;
    if (MAKES_TIES.test(sql)) this.tied = undefined;
    return NAMES_IT.test(sql) || (this.tied ??= this.isTied());
  }

  /** Whether anything else in the schema names the table. */
  private isTied(): boolean {
    const { rows } = this.database.query(
      "SELECT 1 FROM sqlite_master WHERE sql LIKE ? AND (type = 'trigger' OR sql LIKE '%references%')",
      [`%${SCHEDULE_TABLE}%`],
    );
    return rows.length > 0;
  }

  make(): void {
    if (this.there === true) return;
    // In an empty database nothing can name the table.
    if (this.database.isEmpty) this.tied = false;
    this.database.create(DDL);
    this.there = true;
  }

  /** Called before users' SQL: creates the table if the SQL names it. */
  makeFor(sql: string): void {
    this.showRunning();
    if (NAMES_IT.test(sql)) this.make();
  }

  /** A table was dropped, or a transaction rolled back: look again. */
  forget(): void {
    this.counted.forget();
    this.there = undefined;
    this.tied = undefined;
    this.rows.clear();
    this.unshown.clear();
  }

  /** Called when users' SQL may have changed rows, or when they will hardly be read again soon. */
  forgetRows(): void {
    this.rows.clear();
  }

  all(): ReadonlyArray<ScheduleRow> {
    return this.exists ? this.select("", []) : [];
  }

  get(id: string): ScheduleRow | undefined {
    if (!this.exists) return undefined;
    const known = this.rows.get(id);
    if (known !== undefined) return known ?? undefined;
    const [row] = this.select("WHERE id = ?", [id]);
    if (row !== undefined) this.remember(id, row);
    return row;
  }

  /**
   * Rows with the same meaning, for idempotent registration. A `payload` of undefined differs from
   * one of null. The due time of a one-shot makes no difference. An interval that was requested as
   * one of several (`idempotent: false`) equals no other.
   */
  same(row: ScheduleRow): ReadonlyArray<ScheduleRow> {
    if (!this.exists) return [];
    return this.select(
      `WHERE type = ? AND callback = ? AND payload IS ? AND cron IS ? AND intervalSeconds IS ?
       AND timezone IS ? AND (type <> 'interval' OR idempotent IS NOT 0) ORDER BY created_at, rowid`,
      [row.type, row.callback, row.payload, row.cron, row.intervalSeconds, row.timezone],
    );
  }

  /** Without the runtime's own. */
  private count(): number {
    if (!this.exists) return 0;
    const sql = `SELECT count(*) FROM ${SCHEDULE_TABLE} WHERE callback IS NOT ? AND callback IS NOT ?`;
    return Number(this.database.query(sql, [...OWN_ALARMS]).rows[0]![0]);
  }

  /** Throws `CeilingReached`; never for the runtime's own. */
  insert(row: ScheduleRow, idempotent: boolean): void {
    if (!OWN_ALARMS.has(row.callback))
      this.counted.add("schedulesMax", this.ceiling(), () => this.count());
    this.make();
    this.database.query(
      `INSERT INTO ${SCHEDULE_TABLE} (${COLUMNS}, idempotent) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)`,
      [
        row.id, row.callback, row.payload, row.type, row.time, row.delayInSeconds, row.cron,
        row.intervalSeconds, row.running, row.retryOptions, row.dueMs, row.timezone, row.misfire,
        row.startedMs, idempotent,
      ], // prettier-ignore
    );
    this.remember(row.id, row);
  }

  remove(id: string): boolean {
    if (!this.exists) return false;
    this.unshown.delete(id);
    const sql = `DELETE FROM ${SCHEDULE_TABLE} WHERE id = ? RETURNING callback`;
    const [removed] = this.database.query(sql, [id]).rows;
    if (removed === undefined) return false;
    if (!OWN_ALARMS.has(String(removed[0]))) this.counted.removed(1);
    this.remember(id, null);
    return true;
  }

  /** Null: not armed. */
  setDue(id: string, dueMs: number | null): void {
    const time = dueMs === null ? null : Math.ceil(dueMs / 1000);
    this.update(id, "time = ?, due_ms = ?", [time, dueMs], { time, dueMs });
  }

  setRunning(id: string, startedMs: number | null): void {
    const change = { running: startedMs !== null, startedMs };
    const row = this.rows.get(id);
    const isShown = !this.unshown.delete(id) && row?.running === true;
    if (row == null || isShown) return this.mark(id, change);
    if (startedMs !== null) this.unshown.set(id, startedMs);
    this.remember(id, { ...row, ...change });
  }

  /** Called before other code reads the table, and before its pages are committed. */
  showRunning(): void {
    for (const [id, startedMs] of this.unshown) {
      this.unshown.delete(id);
      try {
        this.mark(id, { running: true, startedMs });
      } catch {
        // Users' SQL broke the table: whatever reads it reports that.
      }
    }
  }

  private mark(id: string, change: Pick<ScheduleRow, "running" | "startedMs">): void {
    this.update(id, "running = ?, started_ms = ?", [change.running, change.startedMs], change);
  }

  private update(
    id: string,
    set: string,
    values: ReadonlyArray<SqlValue | boolean>,
    change: Partial<ScheduleRow>,
  ): void {
    this.database.query(`UPDATE ${SCHEDULE_TABLE} SET ${set} WHERE id = ?`, [...values, id]);
    const known = this.rows.get(id);
    if (known != null) this.remember(id, { ...known, ...change });
  }

  /** Caches the row as the table has it; null: it has none. */
  remember(id: string, row: ScheduleRow | null): void {
    if ((this.tied ??= this.isTied())) this.rows.clear();
    else this.rows.set(id, row);
  }

  private select(where: string, params: ReadonlyArray<SqlValue>): ReadonlyArray<ScheduleRow> {
    const { rows } = this.database.query(
      `SELECT ${COLUMNS} FROM ${SCHEDULE_TABLE} ${where}`,
      params,
    );
    return rows.map(toRow);
  }
}

const numberOf = (value: SqlValue): number | null =>
  typeof value === "number" || typeof value === "bigint" ? Number(value) : null;

function toRow(values: ReadonlyArray<SqlValue>): ScheduleRow {
  const [id, callback, payload, type, time, delay, cron, interval, running, retry] = values as [
    SqlValue, SqlValue, SqlValue, SqlValue, SqlValue, SqlValue, SqlValue, SqlValue, SqlValue, SqlValue,
  ]; // prettier-ignore
  const [due, timezone, misfire, started] = values.slice(10) as [
    SqlValue,
    SqlValue,
    SqlValue,
    SqlValue,
  ];
  return {
    id: String(id),
    callback: textOrNull(callback) ?? "",
    payload: textOrNull(payload),
    type: String(type) as ScheduleType,
    time: numberOf(time),
    delayInSeconds: numberOf(delay),
    cron: textOrNull(cron),
    intervalSeconds: numberOf(interval),
    running: Boolean(running),
    retryOptions: textOrNull(retry),
    dueMs: numberOf(due),
    timezone: textOrNull(timezone),
    misfire: misfire === "all" || misfire === "skip" ? misfire : "latest",
    startedMs: numberOf(started),
  };
}

/** The payload. Text from users' SQL that is not JSON is returned as it is. Undefined: none. */
export function payloadOf(text: string | null): unknown {
  if (text === null) return undefined;
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return text;
  }
}

/** Undefined: none, or none that can be read. */
export function retryOf(text: string | null): RetryOptions | undefined {
  const retry = payloadOf(text);
  return typeof retry === "object" && retry !== null
    ? finiteRetry(retry as RetryOptions)
    : undefined;
}

/** The schedule as users receive it, without empty keys (`protocol.md` §5). */
export function toSchedule(row: ScheduleRow): Schedule {
  const retry = retryOf(row.retryOptions);
  return {
    id: row.id,
    callback: row.callback,
    ...(row.payload === null ? {} : { payload: payloadOf(row.payload) }),
    ...(retry === undefined ? {} : { retry }),
    type: row.type,
    time: row.time ?? 0,
    ...(row.delayInSeconds === null ? {} : { delayInSeconds: row.delayInSeconds }),
    ...(row.cron === null ? {} : { cron: row.cron }),
    ...(row.intervalSeconds === null ? {} : { intervalSeconds: row.intervalSeconds }),
  };
}
