/**
 * When a schedule is due, at first and after a run, and what becomes of a run that was missed.
 * Pure. `Scheduler` and `runSchedule` call it; `Cron` does the calendar.
 *
 * A run was missed when it begins more than `MISFIRE_AFTER_MS` late. The schedule's `misfire` says
 * what happens then:
 *
 * | misfire  | the late run | next due time of a cron     |
 * | -------- | ------------ | --------------------------- |
 * | `latest` | runs once    | the first one after now     |
 * | `all`    | runs         | the first one after its own |
 * | `skip`   | does not run | the first one after now     |
 */
import type { CronShape } from "./Cron.ts";
import type { ScheduleRow } from "./ScheduleTable.ts";

/** The end of the year 9999, the last that a timer's time can be written for (RFC 3339). */
export const DUE_MS_MAX = Date.UTC(9999, 11, 31, 23, 59, 59);

/**
 * The exact due time, milliseconds since the epoch: `due_ms` while `time` equals it rounded up,
 * otherwise the second that the user set in `time`. Undefined: not armed. Never -Infinity, which no
 * envelope can have: what was due before all times is due now.
 */
export function dueOf(row: ScheduleRow | undefined): number | undefined {
  if (row === undefined) return undefined;
  if (row.dueMs !== null && (row.time === null || Math.ceil(row.dueMs / 1000) === row.time))
    return Math.max(row.dueMs, -DUE_MS_MAX);
  return row.time === null ? undefined : Math.max(Math.ceil(row.time * 1000), -DUE_MS_MAX);
}

/** Throws `InvalidCron`, or `Error` for a row that lacks what its type needs. */
export function firstDue(row: ScheduleRow, nowMs: number, cron: CronShape): number {
  switch (row.type) {
    case "scheduled": {
      const dueMs = dueOf(row);
      if (dueMs === undefined) throw new Error("a schedule of type scheduled needs a time");
      return dueMs;
    }
    case "delayed":
      return Math.ceil(nowMs + (row.delayInSeconds ?? 0) * 1000);
    case "cron":
      return cron.next(row.cron ?? "", nowMs, row.timezone ?? undefined);
    case "interval":
      if (row.intervalSeconds === null || !(row.intervalSeconds > 0))
        throw new Error("a schedule of type interval needs intervalSeconds above 0");
      return Math.ceil(nowMs + row.intervalSeconds * 1000);
  }
}

/** A run that begins later than this was missed. The broker's timers are within 300 ms. */
const MISFIRE_AFTER_MS = 5_000;

/** Whether a run that would begin now is left out. */
export const isSkipped = (row: ScheduleRow, dueMs: number, nowMs: number): boolean =>
  row.misfire === "skip" && nowMs - dueMs > MISFIRE_AFTER_MS;

/**
 * The next due time of a recurring schedule, after a run that was due at `dueMs` and ended now. The
 * clock may have been set back during the run: no time of a cron expression is due twice. Throws as
 * `firstDue` does.
 */
export function nextDue(row: ScheduleRow, dueMs: number, nowMs: number, cron: CronShape): number {
  if (row.type !== "cron") return firstDue(row, nowMs, cron);
  return firstDue(row, row.misfire === "all" ? dueMs : Math.max(dueMs, nowMs), cron);
}

/**
 * By how much a clock has to be set back before recurring schedules follow it. The times of a cron
 * expression that has run wait for a smaller correction to pass, as vixie-cron's do.
 */
const SET_BACK_MS = { cron: 3 * 3600 * 1000, interval: 60_000 } as const;

/**
 * Whether a recurring schedule was made due by a clock that was fast, and is right now: even from a
 * later time than now, it would be due earlier than it is. Users' SQL may set any time.
 */
export function isPutTooFar(row: ScheduleRow, nowMs: number, cron: CronShape): boolean {
  const { type, dueMs } = row;
  if ((type !== "cron" && type !== "interval") || dueMs === null || dueOf(row) !== dueMs)
    return false;
  const fromMs = nowMs + SET_BACK_MS[type];
  if (dueMs <= fromMs) return false;
  try {
    return firstDue(row, fromMs, cron) < dueMs;
  } catch {
    return false; // Users' SQL left a row that can't be due. It is reported when it changes.
  }
}
