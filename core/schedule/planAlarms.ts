/**
 * Decides which timer the broker must keep for an agent's schedules, and which it no longer needs.
 * Pure. `AlarmCover` carries the plan out.
 *
 * The broker keeps a timer for the schedule that is due first, and not for each: a timer wakes the
 * agent, and an agent in memory keeps time itself. Ten schedules therefore cost one message.
 *
 * 1. A due time is covered when a pending timer fires at or before it. Only timers of the future
 *    count: one that has fired may have been delivered to another host.
 * 2. A timer that is already due is never cancelled. It fires, and covers until its delivery is
 *    acked.
 */
import { DUE_MS_MAX, dueOf } from "./dueTimes.ts";
import type { ScheduleRow } from "./ScheduleTable.ts";

interface AlarmFacts {
  readonly put: ReadonlyArray<ScheduleRow>;
  /** Rows, as they were, whose due time is over. */
  readonly gone: ReadonlyArray<ScheduleRow>;
  /** All rows. Read only when a pending timer is cancelled, since there may be very many. */
  readonly rows: Iterable<ScheduleRow>;
  /** Due times of the timers that are stored and have not fired, by `keyOf`. */
  readonly pending: Iterable<readonly [key: string, dueMs: number]>;
  /** Since the epoch. */
  readonly nowMs: number;
}

interface AlarmPlan {
  /** Arm a timer for this row before the change is stored. Undefined: all rows are covered. */
  readonly arm: ScheduleRow | undefined;
  /** Cancel the timers of these due times after the change is stored. */
  readonly disarm: ReadonlyArray<ScheduleRow>;
}

export function planAlarms({ put, gone, rows, pending, nowMs }: AlarmFacts): AlarmPlan {
  // Rule 2.
  const disarm = gone.filter((row) => (dueOf(row) ?? 0) > nowMs);
  const cancelled = new Set(disarm.map((row) => keyOf(row.id, dueOf(row)!)));
  const staying: number[] = [];
  let uncovers = false;
  for (const [key, dueMs] of pending)
    if (cancelled.has(key)) uncovers = true;
    else staying.push(dueMs);
  let first = earliest(put);
  if (uncovers) for (const row of rows) if ((dueOf(row) ?? 0) > nowMs) first = earlier(first, row);
  const covered = first === undefined || covers(staying, dueOf(first)!, nowMs);
  return { arm: covered ? undefined : first, disarm };
}

/** Rule 1: whether a timer among `pending` fires at or before `dueMs`. */
export function covers(pending: Iterable<number>, dueMs: number, nowMs: number): boolean {
  for (const atMs of pending) if (atMs > nowMs && atMs <= dueMs) return true;
  return false;
}

/** The row that is due first. Undefined: no row can be armed. */
export function earliest(
  ...sources: ReadonlyArray<Iterable<ScheduleRow>>
): ScheduleRow | undefined {
  let first: ScheduleRow | undefined;
  for (const rows of sources) for (const row of rows) first = earlier(first, row);
  return first;
}

function earlier(first: ScheduleRow | undefined, row: ScheduleRow): ScheduleRow | undefined {
  const dueMs = dueOf(row);
  if (dueMs === undefined || dueMs > DUE_MS_MAX) return first;
  return first === undefined || dueMs < dueOf(first)! ? row : first;
}

/** Names one due time of one schedule, in its trigger and in the journal. */
export const keyOf = (id: string, dueMs: number): string => `schedule:${id}:${dueMs}`;

/** Reverses `keyOf`. */
export function readKey(key: string): [id: string, dueMs: number] {
  const at = key.lastIndexOf(":");
  return [key.slice("schedule:".length, at), Number(key.slice(at + 1))];
}
