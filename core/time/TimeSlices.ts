/**
 * Cooperative scheduling for work that arrives in great numbers at one instant: the work begins a
 * slice of time at a time, and everything else runs between two slices. At midnight 100,000
 * schedules fall due, and as many agents wake for them. 400 requests that each compute for 20 ms
 * arrive together. Run one after another without a pause, they would block the process for seconds,
 * and a host that is blocked for a lease's length loses its leases.
 *
 * 1. Work that arrives alone begins at once. Once a slice is used up, the rest waits for the event
 *    loop's next pass, and everything else runs first.
 * 2. Work begins in the order of its arrival.
 * 3. Work that begins in one callback has not run yet when the next piece begins, so only so many
 *    may. Of work that arrives in callbacks of its own, the time is known, and only that counts.
 * 4. While passes are short although more work arrives than may begin at once, more of it may: each
 *    piece that waits costs some ten promises. After a long pass it is the least again.
 *
 * A process has three for its agents: `slicesOf` for those that wake, `turnSlicesOf` for turns, and
 * `readSlicesOf` for what clients ask to be sent again.
 * `Host` has one of its own for hibernation and hand-over, so that these do not wait behind a crowd
 * of agents that wake.
 */
import { perClock } from "./perClock.ts";
import type { TimeShape } from "./Time.ts";

/**
 * Work that has begun continues after the slice: beside a crowd, nearly all of a neighbour's
 * requests take less than 100 ms. At 4 ms the crowd takes a twelfth longer than at 12.
 */
const SLICE_MS = 10;
/**
 * Longer than a pass takes at the highest rate of webhooks that was measured, so that turns wait
 * only when the thread is held. Half of the 200 ms from which the watchdog logs that.
 */
const TURNS_MS = 100;
/** Eight times 20 ms is below the 200 ms from which the watchdog logs a hold. */
const AT_ONCE_MIN = 8;
/** As many webhooks as one message usually brings; a burst of long turns among them holds once. */
const AT_ONCE_MAX = 32;
/** The end of a callback is awaited once for as many pieces of work, since each wait costs. */
const COUNTED_ANEW = AT_ONCE_MIN / 2;

export class TimeSlices {
  private readonly waiting: Array<() => void> = [];
  private endMs = 0;
  /** Whether the event loop is still in the pass in which the slice began. */
  private inPass = false;
  /** How many pieces of work wanted to begin in this callback, and how many may (rule 3). */
  private begun = 0;
  private atOnce = AT_ONCE_MIN;
  /** The most that wanted to begin in one callback of this pass. */
  private begunMost = 0;
  /** Whether `beginWaiting` runs. */
  private isBeginning = false;

  /** `sliceMs`: default 10. */
  constructor(
    private readonly time: TimeShape,
    private readonly sliceMs = SLICE_MS,
  ) {}

  /**
   * Runs `f` now or in a later slice. `f` must not throw, and checks whether it is still wanted.
   */
  run(f: () => void): void {
    if (this.mayBegin()) f();
    else this.wait(f);
  }

  /** Undefined when the caller may begin now; otherwise resolves when it may. */
  turn(): Promise<void> | undefined {
    return this.mayBegin() ? undefined : new Promise((resolve) => this.wait(resolve));
  }

  /**
   * For one long piece of work, between two of its steps. Undefined while the slice has time left;
   * otherwise resolves in a later one.
   */
  yield(): Promise<void> | undefined {
    return this.hasSlice() ? undefined : new Promise((resolve) => this.wait(resolve));
  }

  private mayBegin(): boolean {
    if (!this.hasSlice()) return false;
    this.begun++;
    // Runs when the callback returns.
    if (this.begun === COUNTED_ANEW) process.nextTick(() => this.countAnew());
    return this.begun <= this.atOnce;
  }

  private countAnew(): void {
    this.begunMost = Math.max(this.begunMost, this.begun);
    this.begun = 0;
  }

  /** Whether nothing waits and the slice has time left. Begins one in a new pass. */
  private hasSlice(): boolean {
    if (this.waiting.length > 0) return false;
    if (this.inPass) return this.hasTime();
    this.beginSlice();
    return true;
  }

  private hasTime(): boolean {
    return this.time.monotonicMs() < this.endMs;
  }

  private beginSlice(): void {
    this.inPass = true;
    this.endMs = this.time.monotonicMs() + this.sliceMs;
    this.time.after(0, () => {
      this.inPass = false;
      this.adapt();
      if (this.waiting.length === 0) return;
      this.beginSlice();
      void this.beginWaiting();
    });
  }

  /** Rule 4, at the end of a pass. */
  private adapt(): void {
    this.countAnew();
    const { atOnce, begunMost } = this;
    this.begunMost = 0;
    const isLong = this.endMs - this.time.monotonicMs() < this.sliceMs / 2;
    if (isLong) this.atOnce = AT_ONCE_MIN;
    else if (begunMost > atOnce) this.atOnce = Math.min(AT_ONCE_MAX, atOnce * 2);
    else if (begunMost <= atOnce / 2) this.atOnce = Math.max(AT_ONCE_MIN, atOnce / 2);
  }

  private wait(f: () => void): void {
    // Work that waits for its number only begins in this slice.
    if (this.waiting.push(f) === 1) void promisesSettled().then(() => this.beginWaiting());
  }

  /** Begins as much of the waiting work as the slice has time for. */
  private async beginWaiting(): Promise<void> {
    if (this.isBeginning) return; // it continues in the new slice
    this.isBeginning = true;
    const { waiting } = this;
    let next = 0;
    while (next < waiting.length && this.hasTime()) {
      waiting[next++]!();
      await promisesSettled();
    }
    waiting.splice(0, next);
    this.isBeginning = false;
  }
}

/**
 * Resolves when all that settled promises lead to has run: what work does before it waits for
 * anything else counts towards its slice.
 */
const promisesSettled = (): Promise<void> => new Promise((resolve) => process.nextTick(resolve));

/** The slices in which agents wake, shared by all agents of a clock. */
export const slicesOf = perClock((time) => new TimeSlices(time));
/** The slices in which turns begin, shared by all agents of a clock. */
export const turnSlicesOf = perClock((time) => new TimeSlices(time, TURNS_MS));
/** The slices in which clients are sent what they missed, shared by all agents of a clock. */
export const readSlicesOf = perClock((time) => new TimeSlices(time));
