/**
 * The one alarm for everything that an agent keeps for a time: a schedule that `getSchedules` does
 * not show. It wakes the agent when something may have expired, and is set again for what expires
 * next.
 */
import type { AgentDatabase } from "../database/Databases.ts";
import { EXPIRY_ALARM } from "../schedule/ownAlarms.ts";
import { ScheduleTable, type SchedulesOfAgent } from "../schedule/ScheduleTable.ts";
import type { TimeShape } from "../time/Time.ts";

/** What expires within this time of each other is removed in one turn, wake and commit. */
const TOGETHER_MS = 60_000;

export interface ExpiryAgent {
  readonly scheduler: SchedulesOfAgent;
  readonly time: Pick<TimeShape, "nowMs">;
}

export class ExpiryAlarm {
  constructor(private readonly agent: ExpiryAgent) {}

  /** Makes sure that the alarm fires when something expires, at this time. */
  by(atMs: number): void {
    const row = this.row();
    if (row !== undefined && (row.dueMs ?? Infinity) <= atMs) return;
    if (row !== undefined) this.agent.scheduler.cancel(row.id);
    this.set(atMs);
  }

  /** The alarm has fired. `atMs`: when something expires next; undefined: never. */
  next(atMs: number | undefined): void {
    if (atMs !== undefined) this.by(Math.max(atMs, this.agent.time.nowMs() + TOGETHER_MS));
  }

  private set(atMs: number): void {
    this.agent.scheduler.add({
      callback: EXPIRY_ALARM,
      when: { type: "scheduled", atMs },
      settings: { idempotent: false },
      shape: "interface",
    });
  }

  /** The row of the alarm that is set. The one that runs now does not count. */
  private row() {
    const { scheduler, time } = this.agent;
    return scheduler.table
      .all()
      .find(({ callback, dueMs }) => callback === EXPIRY_ALARM && (dueMs ?? 0) > time.nowMs());
  }
}

/** Adds the alarm of one database to another, whose alarms stay. */
export function copyAlarm(from: AgentDatabase, to: AgentDatabase): void {
  const [there, here] = [new ScheduleTable(from), new ScheduleTable(to)];
  for (const row of there.exists ? there.all() : [])
    if (row.callback === EXPIRY_ALARM && !(here.exists && here.get(row.id)))
      here.insert(row, false);
}
