/**
 * Timers for a time of the wall clock, which may be set, or continue while the machine sleeps. The
 * timers of `Time` measure the machine's running time, so they notice neither: one watch for all
 * timers of a clock compares the two.
 */
import { perClock } from "./perClock.ts";
import type { TimeShape } from "./Time.ts";

/** How late a set clock is noticed. */
const WATCH_MS = 60_000;
/** Beyond what a clock is slewed by, and what timers of the machine are late by, in that time. */
const SET_MS = 1_000;

type Clock = Pick<TimeShape, "nowMs" | "monotonicMs" | "after">;

interface WallTimer {
  cancel: () => void;
  readonly look: () => void;
}

class WallTimers {
  private readonly timers = new Set<WallTimer>();
  private cancelWatch: (() => void) | undefined;
  /** Of the two clocks, when they were last compared. */
  private offsetMs = 0;

  constructor(private readonly time: Clock) {}

  add(atMs: number, look: () => void): () => void {
    const { time, timers } = this;
    const timer: WallTimer = { look, cancel: () => undefined };
    const remove = (): void => {
      timers.delete(timer);
      // Else the watch would keep the process alive.
      if (timers.size === 0) this.endWatch();
    };
    const cancel = time.after(Math.max(0, atMs - time.nowMs()), () => {
      remove();
      look();
    });
    timer.cancel = () => {
      cancel();
      remove();
    };
    timers.add(timer);
    if (this.cancelWatch === undefined) {
      this.offsetMs = this.offset();
      this.watch();
    }
    return timer.cancel;
  }

  private watch(): void {
    this.cancelWatch = this.time.after(WATCH_MS, () => {
      const offsetMs = this.offset();
      this.watch();
      if (Math.abs(offsetMs - this.offsetMs) <= SET_MS) return;
      this.offsetMs = offsetMs;
      // Looks add timers, and may cancel others.
      const before = [...this.timers];
      for (const timer of before) {
        if (!this.timers.has(timer)) continue;
        timer.cancel();
        timer.look();
      }
    });
  }

  private endWatch(): void {
    this.cancelWatch?.();
    this.cancelWatch = undefined;
  }

  private offset(): number {
    return this.time.nowMs() - this.time.monotonicMs();
  }
}

const timersOf = perClock<WallTimers>((time) => new WallTimers(time));

/**
 * Runs `look` when the wall clock shows `atMs`, or earlier: `look` checks the time, and calls this
 * again. The returned function cancels; calling it twice, or too late, does nothing.
 */
export const wallTimer = (time: TimeShape, atMs: number, look: () => void): (() => void) =>
  timersOf(time).add(atMs, look);
