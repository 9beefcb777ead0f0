/**
 * Cooperative scheduling for work that arrives in great numbers at one instant: it begins a slice
 * of time at a time, and everything else runs between two slices. At midnight 100,000 schedules
 * fall due, and as many agents wake for them. 400 requests that each compute for 20 ms arrive
 * together. Run one after another, they would block the process for seconds.
 *
 * 1. Work that arrives alone begins at once. Once a slice is used up, the rest waits for the event
 *    loop's next pass.
 * 2. Work that waits begins in the order of its arrival, but of one agent a piece at a time: after
 *    it, the others that wait come first.
 * 3. Work that begins in one callback has not run yet when the next piece begins, so only so many
 *    may. Of work that arrives in callbacks of its own, the time is known, and only that counts.
 * 4. While passes are short although more work arrives than may begin at once, more of it may: each
 *    piece that waits costs some ten promises. After a long pass it is the least again.
 * 5. After a long slice nothing that waits begins for a while. A neighbour's request takes several
 *    passes (its call, its commit, its answer), and would wait for a long turn in each of them.
 */
import { addressKey, type AgentId } from "../../schemas/Address.ts";
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
/**
 * For the calls of agents' code. Calls within a process end without a pass of the event loop, so
 * code that makes them in a loop would fill every slice of turns, and its neighbours wait for
 * several.
 */
const CALLS_MS = 2;
/** Eight times 20 ms is below the 200 ms from which the watchdog logs a hold. */
const AT_ONCE_MIN = 8;
/** As many webhooks as one message usually brings; a burst of long turns among them holds once. */
const AT_ONCE_MAX = 32;
/** Rule 5: this part of the slice. A crowd loses it, and a request beside it needs no more. */
const GAP = 0.05;
/** The end of a callback is awaited once for as many pieces of work, since each wait costs. */
const COUNTED_ANEW = AT_ONCE_MIN / 2;

export class TimeSlices {
  /** By agent, in the order of their turns (rule 2). */
  private readonly waiting = new Map<unknown, Array<() => void>>();
  /** Kept, because a new iterator passes all that has left. */
  private order = this.waiting.entries();
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
   * Runs `f` now or in a later slice. `f` checks whether it is still wanted. What it throws in a
   * later slice is unhandled, and does not keep back what waits behind it.
   */
  run(f: () => void): void {
    if (this.mayBegin()) f();
    else this.wait(f);
  }

  /** Undefined when the caller may begin now; otherwise resolves when it may. `of`: rule 2. */
  turn(of?: AgentId): Promise<void> | undefined {
    if (this.mayBegin()) return undefined;
    return new Promise((resolve) => this.wait(resolve, of && addressKey(of)));
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
    if (this.waiting.size > 0) return false;
    // What has just left the line begins only after the code that asks here.
    if (this.inPass) return !this.isBeginning && this.hasTime();
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
      if (this.waiting.size === 0) return;
      // Rule 5.
      const usedMs = this.time.monotonicMs() - this.endMs + this.sliceMs;
      const gapMs = Math.floor(usedMs * GAP);
      if (gapMs === 0) return this.beginNext();
      this.time.after(gapMs, () => this.beginNext());
    });
  }

  private beginNext(): void {
    this.beginSlice();
    void this.beginWaiting();
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

  private wait(f: () => void, key: unknown = f): void {
    // Work that waits for its number only begins in this slice.
    if (this.waiting.size === 0) void promisesSettled().then(() => this.beginWaiting());
    const line = this.waiting.get(key);
    if (line === undefined) this.waiting.set(key, [f]);
    else line.push(f);
  }

  /** Begins as much of the waiting work as the slice has time for. */
  private async beginWaiting(): Promise<void> {
    if (this.isBeginning) return; // it continues in the new slice
    this.isBeginning = true;
    while (this.hasTime()) {
      const begin = this.next();
      if (begin === undefined) break;
      void (async () => begin())();
      await promisesSettled();
    }
    this.isBeginning = false;
  }

  /** Rule 2: takes a piece of the first agent's work; the rest of it goes behind the others. */
  private next(): (() => void) | undefined {
    let first = this.order.next();
    if (first.done === true) {
      this.order = this.waiting.entries();
      first = this.order.next();
      if (first.done === true) return undefined;
    }
    const [key, line] = first.value;
    this.waiting.delete(key);
    const begin = line.shift();
    if (line.length > 0) this.waiting.set(key, line);
    return begin;
  }
}

/**
 * Resolves when all that settled promises lead to has run: what work does before it waits for
 * anything else counts towards its slice.
 */
const promisesSettled = (): Promise<void> => new Promise((resolve) => process.nextTick(resolve));

// `Host` has slices of its own for hibernation and hand-over, so that these do not wait behind a
// crowd of agents that wake.

/** The slices in which agents wake and steps of workflows begin, shared by all of a clock. */
export const slicesOf = perClock((time) => new TimeSlices(time));
/** The slices in which turns begin, shared by all agents of a clock. */
export const turnSlicesOf = perClock((time) => new TimeSlices(time, TURNS_MS));
/** The slices in which agents' code calls other agents, shared by all agents of a clock. */
export const callSlicesOf = perClock((time) => new TimeSlices(time, CALLS_MS));
/** The slices in which clients are sent what they missed, shared by all agents of a clock. */
export const readSlicesOf = perClock((time) => new TimeSlices(time));
