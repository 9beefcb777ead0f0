/** When a schedule is due: at first, and after a run. Pure; `Scheduler` calls it, `Cron` does the calendar. */
import type { CronShape } from "../schedule/Cron.ts";
import type { ScheduleRow } from "../schedule/ScheduleTable.ts";

/**
 * The exact due time, milliseconds since the epoch: `due_ms` while `time` is it rounded up, else the
 * second that the user set in `time`. Undefined: not armed.
 */
export function dueOf(row: ScheduleRow | undefined): number | undefined {
  if (row === undefined) return undefined;
  if (row.dueMs !== null && (row.time === null || Math.ceil(row.dueMs / 1000) === row.time))
    return row.dueMs;
  return row.time === null ? undefined : row.time * 1000;
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
      return nowMs + (row.delayInSeconds ?? 0) * 1000;
    case "cron":
      return cron.next(row.cron ?? "", nowMs, row.timezone ?? undefined);
    case "interval":
      if (row.intervalSeconds === null || !(row.intervalSeconds > 0))
        throw new Error("a schedule of type interval needs intervalSeconds above 0");
      return nowMs + row.intervalSeconds * 1000;
  }
}

/** After a run that was due at `dueMs` and ended now; undefined for a one-shot. */
export function nextDue(
  row: ScheduleRow,
  dueMs: number,
  nowMs: number,
  cron: CronShape,
): number | undefined {
  if (row.type === "interval") return firstDue(row, nowMs, cron);
  if (row.type !== "cron") return undefined;
  // `all` runs each instant that was missed; the others go on from now.
  return cron.next(
    row.cron ?? "",
    row.misfire === "all" ? dueMs : nowMs,
    row.timezone ?? undefined,
  );
}
