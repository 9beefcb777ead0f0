/**
 * An agent's schedules as of its last commit, and what was written to their table since: by this
 * process, or by users' SQL, which may have written anything. For `Scheduler`, which arms them.
 *
 * If users' SQL made the table unreadable, the rows that are known stay.
 */
import { SparseMap, SparseSet } from "../collections/sparse.ts";
import { messageOf } from "../errors/thrown.ts";
import type { CronShape } from "./Cron.ts";
import { DUE_MS_MAX, dueOf, firstDue } from "./dueTimes.ts";
import type { ScheduleAgent } from "./runSchedule.ts";
import { SCHEDULE_TABLE, type ScheduleRow, type ScheduleTable } from "./ScheduleTable.ts";

/** What a commit finds changed. */
interface ScheduleChanges {
  /** Rows that are new, or of which `toSchedule` returns something else. */
  readonly changed: ReadonlyArray<ScheduleRow>;
  /** Rows whose due time is new. */
  readonly put: ReadonlyArray<ScheduleRow>;
  /** Rows as they were before their due time changed, or they were deleted. */
  readonly gone: ReadonlyArray<ScheduleRow>;
  /** Ids of rows that were deleted. */
  readonly del: ReadonlyArray<string>;
}

/** What `toSchedule` shows of a row. */
const SHOWN = [
  "callback",
  "payload",
  "type",
  "time",
  "delayInSeconds",
  "cron",
  "intervalSeconds",
  "retryOptions",
] as const satisfies ReadonlyArray<keyof ScheduleRow>;

export class KnownSchedules {
  /** Rows as of the last commit that began, or of activation. These are the rows that are armed. */
  readonly rows = new SparseMap<string, ScheduleRow>();
  /** Ids of the rows that `Scheduler` wrote since the last commit began. */
  private readonly written = new SparseSet<string>();
  /** Any row may have changed since the last commit began. */
  private changed = false;
  /** The table could not be read at the last attempt, so `rows` may be out of date. */
  private stale = false;

  constructor(
    private readonly agent: ScheduleAgent,
    private readonly table: ScheduleTable,
    private readonly cron: CronShape,
  ) {}

  load(): void {
    for (const row of this.readTable()) this.rows.set(row.id, row);
  }

  /** As `Scheduler.forget`. */
  forget(): void {
    this.table.forget();
    this.changed = true;
  }

  /** Users' SQL wrote. If it can have reached the table, the next commit reads all of it. */
  wrote(sql: string): void {
    if (!this.table.mayBeReachedBy(sql)) return;
    this.changed = true;
    this.table.forgetRows();
  }

  touched(id: string): void {
    this.written.add(id);
  }

  /**
   * Updates `rows` from the table when a commit begins, and may write the due times of rows that
   * users changed. Undefined: nothing was written.
   */
  take(): ScheduleChanges | undefined {
    if (!this.changed && this.written.size === 0) return undefined;
    const looked = this.changed
      ? new Map(this.readTable().map((row) => [row.id, row]))
      : new Map(Array.from(this.written, (id) => [id, this.readRow(id)]));
    if (this.changed)
      for (const id of this.rows.keys()) if (!looked.has(id)) looked.set(id, undefined);
    this.changed = false;
    this.written.clear();
    const changed: ScheduleRow[] = [];
    const [put, gone, del]: [ScheduleRow[], ScheduleRow[], string[]] = [[], [], []];
    for (const [id, found] of looked) {
      const before = this.rows.get(id);
      const row = found === undefined ? undefined : this.settleDue(found, before);
      if (row === undefined) this.rows.delete(id);
      else this.rows.set(id, row);
      if (row === undefined && before !== undefined) del.push(id);
      const isMoved = dueOf(row) !== dueOf(before);
      if (row !== undefined && (isMoved || before === undefined || !showsSame(row, before)))
        changed.push(row);
      if (!isMoved) continue;
      if (row !== undefined) put.push(row);
      if (before !== undefined) gone.push(before);
    }
    this.table.forgetRows();
    return { changed, put, gone, del };
  }

  /** The row as it is now. `isRunning`: its run may have written it without a report. */
  read(id: string, isRunning: boolean): ScheduleRow | undefined | "unreadable" {
    // Saves reading a row that nothing has written since the last read.
    const row = this.rows.get(id);
    if (row !== undefined && !this.changed && !this.stale && !this.written.has(id) && !isRunning)
      this.table.remember(id, row);
    try {
      return this.table.get(id);
    } catch (error) {
      this.unreadable(error);
      return "unreadable";
    }
  }

  private readTable(): ReadonlyArray<ScheduleRow> {
    try {
      const rows = this.table.all();
      this.stale = false;
      return rows;
    } catch (error) {
      this.unreadable(error);
      return [...this.rows.values()];
    }
  }

  private readRow(id: string): ScheduleRow | undefined {
    try {
      return this.table.get(id);
    } catch (error) {
      this.unreadable(error);
      return this.rows.get(id);
    }
  }

  /** The row with its due time, which users' SQL may have left out or changed. */
  private settleDue(row: ScheduleRow, before: ScheduleRow | undefined): ScheduleRow {
    const { agent, cron } = this;
    const moved =
      before === undefined
        ? row.dueMs === null && row.time === null
        : row.time === before.time &&
          (row.type !== before.type ||
            row.cron !== before.cron ||
            row.timezone !== before.timezone ||
            row.intervalSeconds !== before.intervalSeconds ||
            row.delayInSeconds !== before.delayInSeconds);
    if (!moved) {
      if ((dueOf(row) ?? 0) > DUE_MS_MAX && dueOf(row) !== dueOf(before))
        agent.log.warn("a schedule is due after the year 9999: is its time in milliseconds?", {
          schedule: row.id,
          dueSeconds: row.time,
        });
      return row;
    }
    try {
      const dueMs = firstDue({ ...row, dueMs: null }, agent.time.nowMs(), cron);
      this.table.setDue(row.id, dueMs);
      return { ...row, dueMs, time: Math.ceil(dueMs / 1000) };
    } catch (error) {
      agent.log.error("a schedule's row can't be armed; it is kept, unarmed", {
        schedule: row.id,
        error: messageOf(error),
      });
      this.table.setDue(row.id, null);
      return { ...row, dueMs: null, time: null };
    }
  }

  private unreadable(error: unknown): void {
    this.stale = true;
    this.agent.log.error(`${SCHEDULE_TABLE} can't be read; its schedules wait until it can be`, {
      error: messageOf(error),
    });
  }
}

const showsSame = (row: ScheduleRow, other: ScheduleRow): boolean =>
  SHOWN.every((column) => row[column] === other[column]);
