/**
 * A clock that a test moves by hand. `await time.advance(ms)` runs the timers that fall due, in
 * order, each with the clocks at its own instant. The machine's clock is never read.
 *
 * 1. Timers run by due time. Those with equal due times run in the order in which they were set.
 * 2. Pending promise work runs before the first timer, between two timers and after the last. A
 *    timer that such work sets within the span therefore runs in the same `advance`.
 * 3. Ids and random numbers come from the seed, so one seed produces one run.
 */
import { setImmediate as afterMicrotasks } from "node:timers/promises";
import type { TimeShape } from "../../core/time/Time.ts";

/** 2025-01-01T00:00:00Z. Any fixed instant serves. */
const START_MS = 1_735_689_600_000;
/** Ends an `advance` whose timers set each other without a delay, which would never end. */
const TIMERS_PER_ADVANCE_MAX = 1_000_000;

interface Timer {
  readonly dueMs: number;
  readonly order: number;
  readonly run: () => void;
}

export class VirtualTime implements TimeShape {
  private elapsedMs = 0;
  private wallOffsetMs: number;
  private order = 0;
  private ids = 0;
  private randomState: number;
  private readonly timers = new Map<number, Timer>();

  constructor(options: { readonly startMs?: number; readonly seed?: number } = {}) {
    this.wallOffsetMs = options.startMs ?? START_MS;
    this.randomState = (options.seed ?? 1) >>> 0;
  }

  // Arrow properties, because callers destructure the functions.
  readonly nowMs = (): number => this.wallOffsetMs + this.elapsedMs;
  readonly monotonicMs = (): number => this.elapsedMs;
  readonly after = (ms: number, f: () => void): (() => void) => {
    const order = ++this.order;
    this.timers.set(order, { dueMs: this.elapsedMs + Math.max(0, ms), order, run: f });
    return () => this.timers.delete(order);
  };
  readonly id = (): string => {
    const noise = Math.floor(this.random() * 2 ** 32).toString(36);
    return `id-${(++this.ids).toString(36).padStart(8, "0")}-${noise.padStart(7, "0")}`;
  };
  /** In [0, 1). The mulberry32 generator: 32 bits of state are enough for a test. */
  readonly random = (): number => {
    this.randomState = (this.randomState + 0x6d2b79f5) >>> 0;
    let t = this.randomState;
    t = Math.imul(t ^ (t >>> 15), t | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };

  /** The number of timers that have not run yet. */
  get pending(): number {
    return this.timers.size;
  }

  /** Milliseconds until the next timer is due, 0 for one overdue; undefined without timers. */
  get nextInMs(): number | undefined {
    const next = this.nextTimer();
    return next && Math.max(0, next.dueMs - this.elapsedMs);
  }

  /**
   * Moves both clocks by `ms` and runs the timers that fall due. Returns early, with the clocks at
   * the last timer's instant, when `stop` returns true after a timer.
   */
  async advance(ms: number, stop?: () => boolean): Promise<void> {
    const endMs = this.elapsedMs + ms;
    await this.settle();
    for (let ran = 0; ; ran++) {
      const next = this.nextTimer();
      if (next === undefined || next.dueMs > endMs) break;
      if (ran === TIMERS_PER_ADVANCE_MAX)
        throw new Error(
          `${ran} timers ran within ${ms} ms: one of them restarts itself without a delay`,
        );
      this.elapsedMs = Math.max(this.elapsedMs, next.dueMs);
      this.timers.delete(next.order);
      next.run();
      await this.settle();
      if (stop?.() === true) return;
    }
    this.elapsedMs = endMs;
  }

  /** Runs all promise work that awaits no timer. */
  async settle(): Promise<void> {
    await afterMicrotasks();
  }

  /** Moves only the wall clock, forwards or back, as an operator or NTP might. */
  jump(ms: number): void {
    this.wallOffsetMs += ms;
  }

  private nextTimer(): Timer | undefined {
    let next: Timer | undefined;
    for (const timer of this.timers.values())
      if (next === undefined || timer.dueMs < next.dueMs) next = timer;
    return next;
  }
}
