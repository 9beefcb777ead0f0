/**
 * The keys of jobs that a redrive has put back. Each run of a job has a key of its own in the
 * journal, so that nothing mistakes it for the dead one. The key contains the dead job's, from
 * which `stepKey` makes the idempotency keys of its steps: to other systems it is the same work.
 * `redriveJob` uses these for the row that it adds, `planAlarms` and `QueueLane` make the keys.
 * Pure.
 *
 * A queue item `queue:<uid>` runs again as `queue:<uid>~<letter>`, and a schedule's run
 * `schedule:<id>:<due>` as `schedule:<id>~<due>~<letter>:<its own due>`. `<letter>` is the sequence
 * of the dead letter.
 */
const QUEUE = /^queue:([\w-]+)(?:~\d+)?$/;
const SCHEDULE = /^schedule:([^~]+)~(\d+)~\d+:\d+$/;

/** The key of the job that died first; any other key itself. */
export function firstKey(key: string): string {
  if (!key.includes("~")) return key;
  const [, uid] = QUEUE.exec(key) ?? [];
  if (uid !== undefined) return `queue:${uid}`;
  const [, id, dueMs] = SCHEDULE.exec(key) ?? [];
  return id === undefined ? key : `schedule:${id}:${dueMs}`;
}

/** The `uid` of an item. Undefined for a key that is not a queue item's. */
export function redrivenUid(key: string, letter: number): string | undefined {
  const [, uid] = QUEUE.exec(key) ?? [];
  return uid === undefined ? undefined : `${uid}~${letter}`;
}

/** The id of a schedule. Undefined for a key that is not a schedule's. */
export function redrivenScheduleId(key: string, letter: number): string | undefined {
  const [, id, dueMs] = /^schedule:([^~]+):(\d+)$/.exec(firstKey(key)) ?? [];
  return id === undefined ? undefined : `${id}~${dueMs}~${letter}`;
}
