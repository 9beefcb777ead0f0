/**
 * The jobs that an agent would run as soon as it wakes, as its tables have them: its queue items,
 * and its schedules that are due. For runs on a fork, where each job runs as an input of its own
 * (`Rerun`).
 */
import type { AgentDatabase } from "../database/Databases.ts";
import { QUEUE } from "../queue/QueueLane.ts";
import { QueueTable } from "../queue/QueueTable.ts";
import { dueOf } from "../schedule/dueTimes.ts";
import { keyOf } from "../schedule/planAlarms.ts";
import { ScheduleTable } from "../schedule/ScheduleTable.ts";

export interface WaitingJob {
  readonly kind: "queue" | "schedule";
  /** The key under which it would run. */
  readonly key: string;
  readonly callback: string;
  /** JSON text, or null. */
  readonly payload: string | null;
}

/** Yields queue items in their order, and then schedules. */
export function* waitingJobs(database: AgentDatabase, nowMs: number): Generator<WaitingJob> {
  for (const { uid, callback, payload } of new QueueTable(database).all())
    yield { kind: "queue", key: queueKey(uid), callback, payload };
  for (const row of new ScheduleTable(database).all()) {
    const dueMs = dueOf(row);
    if (dueMs === undefined || dueMs > nowMs) continue;
    const { id, callback, payload } = row;
    yield { kind: "schedule", key: keyOf(id, dueMs), callback, payload };
  }
}

/** Removes those with these keys from the database. Its image is without them then. */
export function takeJobs(database: AgentDatabase, keys: ReadonlySet<string>): void {
  if (keys.size === 0) return;
  const queue = new QueueTable(database);
  for (const { uid } of queue.all()) if (keys.has(queueKey(uid))) queue.remove("uid = ?", [uid]);
  const schedules = new ScheduleTable(database);
  for (const row of schedules.all()) {
    const dueMs = dueOf(row);
    if (dueMs !== undefined && keys.has(keyOf(row.id, dueMs))) schedules.remove(row.id);
  }
  if (database.freeze() !== undefined) database.committed();
}

const queueKey = (uid: string): string => `${QUEUE.keys}:${uid}`;
