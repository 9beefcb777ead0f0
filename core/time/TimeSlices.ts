/**
 * Cooperative scheduling for work that arrives in thousands at one instant: the work begins a slice
 * of time at a time, and everything else runs between two slices. At midnight 100,000 schedules
 * fall due, and as many agents wake for them. Run one after another without a pause, they would
 * block the process for seconds, and a host that is blocked for a lease's length loses its leases.
 *
 * 1. Work that arrives alone begins at once. Once a slice is used up, the rest waits for a pause in
 *    which everything else runs.
 * 2. Work begins in the order of its arrival.
 *
 * A process has one for its agents (`slicesOf`). `Host` has one of its own for hibernation and
 * hand-over, so that these do not wait behind a crowd of agents that wake.
 */
import { perClock } from "./perClock.ts";
import type { TimeShape } from "./Time.ts";

/**
 * Work that has begun continues after the slice: beside a crowd, nearly all of a neighbour's
 * requests take less than 100 ms. At 4 ms the crowd takes a twelfth longer than at 12.
 */
const SLICE_MS = 10;

export class TimeSlices {
  private readonly time: TimeShape;
  private readonly waiting: Array<() => void> = [];
  private endMs = 0;
  private lastMs = -Infinity;

  constructor(time: TimeShape) {
    this.time = time;
  }

  /**
   * Runs `f` now or in a later slice. `f` must not throw, and checks whether it is still wanted.
   */
  run(f: () => void): void {
    if (!this.enter()) return this.wait(f);
    f();
    this.lastMs = this.time.monotonicMs();
  }

  /** Undefined when the caller may begin now; otherwise resolves when it may. */
  turn(): Promise<void> | undefined {
    return this.enter() ? undefined : new Promise((resolve) => this.wait(resolve));
  }

  /**
   * For one long piece of work, between two of its steps. Undefined while the slice has time left;
   * otherwise resolves after a pause. Unlike `turn`, a step that is longer than a slice is followed
   * by a pause.
   */
  yield(): Promise<void> | undefined {
    const hasTime = this.waiting.length === 0 && this.time.monotonicMs() < this.endMs;
    return hasTime ? undefined : new Promise((resolve) => this.wait(resolve));
  }

  /**
   * Whether the slice has time left and nothing waits. A slice's length without an arrival counts
   * as a pause, because a timer to find out would cost every piece of work that arrives alone.
   * Callers of `turn` that are each busy for longer than a slice are therefore not treated as a
   * crowd.
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
    this.time.after(0, () => void this.beginSlice());
  }

  /** Begins as much of the waiting work as the slice has time for. */
  private async beginSlice(): Promise<void> {
    const { waiting, time } = this;
    this.lastMs = time.monotonicMs();
    this.endMs = this.lastMs + SLICE_MS;
    let next = 0;
    do {
      waiting[next++]!();
      // The first synchronous part of the work counts towards the slice.
      await Promise.resolve();
    } while (next < waiting.length && time.monotonicMs() < this.endMs);
    waiting.splice(0, next);
    if (waiting.length > 0) this.pause();
    this.lastMs = time.monotonicMs();
  }
}

/** The slices of a clock, shared by all agents of the process. */
export const slicesOf = perClock((time) => new TimeSlices(time));
