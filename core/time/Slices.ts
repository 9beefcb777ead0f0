/**
 * Lets what comes in thousands at one instant begin a slice at a time. At midnight 100,000 schedules are due, and as many agents wake for them,
 * each for a moment; one after another without a pause they would hold everything else up for seconds, and a host that is busy for a
 * lease's length loses its leases.
 *
 * 1. What comes alone begins at once. Past a slice of them the rest wait until what else waits had its turn.
 * 2. They begin in the order in which they came.
 *
 * One a process. Like `services/host/Breather`, for what must not wait at all while there is no crowd.
 */
import { perClock } from "./perClock.ts";
import type { TimeShape } from "./Time.ts";

/** What has begun goes on after it: nearly all of a neighbour's requests take less than 100 ms beside a crowd. At 4 ms the crowd takes a twelfth longer than at 12. */
const SLICE_MS = 10;

export class Slices {
  private readonly time: TimeShape;
  private readonly waiting: Array<() => void> = [];
  private endMs = 0;
  private lastMs = -Infinity;

  constructor(time: TimeShape) {
    this.time = time;
  }

  /** Runs `f`, now or soon. It must not throw, and is to find out by itself whether it is still wanted. */
  run(f: () => void): void {
    if (!this.enter()) return this.wait(f);
    f();
    this.lastMs = this.time.monotonicMs();
  }

  /** Undefined: it may begin now. Else resolves when it may. */
  turn(): Promise<void> | undefined {
    return this.enter() ? undefined : new Promise((resolve) => this.wait(resolve));
  }

  /**
   * Is there time left in this slice, and nobody before? A slice's length without anybody counts as a pause, since a timer to find out would
   * cost each that comes alone; so those of `turn` that are busy for longer than that, each of them, are not a crowd.
   */
  private enter(): boolean {
    if (this.waiting.length > 0) return false;
    const nowMs = this.time.monotonicMs();
    if (nowMs - this.lastMs > SLICE_MS) this.endMs = nowMs + SLICE_MS;
    this.lastMs = nowMs;
    return nowMs < this.endMs;
  }

  private wait(f: () => void): void {
    this.waiting.push(f);
    if (this.waiting.length === 1) this.pause();
  }

  private pause(): void {
    this.time.after(0, () => void this.letIn());
  }

  /** As many of those that wait as the next slice has time for. */
  private async letIn(): Promise<void> {
    const { waiting, time } = this;
    this.lastMs = time.monotonicMs();
    this.endMs = this.lastMs + SLICE_MS;
    let next = 0;
    do {
      waiting[next++]!();
      // What it begins with counts.
      await Promise.resolve();
    } while (next < waiting.length && time.monotonicMs() < this.endMs);
    waiting.splice(0, next);
    if (waiting.length > 0) this.pause();
    this.lastMs = time.monotonicMs();
  }
}

/** By clock: one for all agents of a process. */
export const slicesOf = perClock((time) => new Slices(time));
