/**
 * This process's timers of an agent's schedules, exact to the millisecond, for as long as the agent
 * is in memory. `Scheduler` sets them, and checks what fires against the table.
 */
import { SparseMap } from "../collections/sparse.ts";
import type { AgentTurns } from "../turn/AgentTurns.ts";
import { wallTimer } from "../time/WallTimers.ts";
import { dueOf } from "./dueTimes.ts";
import type { ScheduleRow } from "./ScheduleTable.ts";

/** A day: a timer costs little, and an agent seldom stays in memory longer without one. */
const WAIT_MS_MAX = 24 * 3600 * 1000;

export class LocalTimers {
  /** What cancels the timer, by schedule. */
  private readonly cancels = new SparseMap<string, () => void>();

  constructor(
    private readonly agent: Pick<AgentTurns, "time" | "discarded">,
    private readonly onDue: (id: string, dueMs: number) => void,
    /** Called when the row is not due yet: arms it again, if it is still to be. */
    private readonly onEarly: (row: ScheduleRow) => void,
  ) {}

  /** Replaces the schedule's timer. Sets none beyond a day: there the broker's timer serves. */
  arm(row: ScheduleRow): void {
    this.disarm(row.id);
    const dueMs = dueOf(row);
    if (dueMs === undefined || this.agent.discarded) return;
    const { time } = this.agent;
    if (dueMs - time.nowMs() > WAIT_MS_MAX) return;
    const cancel = wallTimer(time, dueMs, () => {
      this.cancels.delete(row.id);
      if (time.nowMs() < dueMs) this.onEarly(row);
      else this.onDue(row.id, dueMs);
    });
    this.cancels.set(row.id, cancel);
  }

  disarm(id: string): void {
    this.cancels.get(id)?.();
    this.cancels.delete(id);
  }

  /** Cancels all: the agent leaves memory. */
  stop(): void {
    for (const cancel of this.cancels.values()) cancel();
    this.cancels.clear();
  }
}
