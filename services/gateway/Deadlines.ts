/**
 * Deadlines for many requests with few timers: all that fall into one slice of time share a timer and
 * an AbortSignal. A hot path: a signal of its own for each webhook would cost more than its signature.
 */
import type { TimeShape } from "../../core/time/Time.ts";

/** Deadlines are seconds; answering up to this much late is within any provider's patience. */
const SLICE_MS = 50;

export interface Deadline {
  readonly signal: AbortSignal;
  /** Runs `f` when the deadline passes. */
  readonly onPassed: (f: () => void) => void;
}

export class Deadlines {
  private readonly time: TimeShape;
  private readonly slices = new Map<number, Slice>();

  constructor(time: TimeShape) {
    this.time = time;
  }

  /** Passes `ms` from now, or up to `SLICE_MS` later. */
  in(ms: number): Deadline {
    const nowMs = this.time.monotonicMs();
    const at = Math.ceil((nowMs + ms) / SLICE_MS);
    let slice = this.slices.get(at);
    if (slice === undefined) {
      slice = new Slice();
      this.slices.set(at, slice);
      this.time.after(at * SLICE_MS - nowMs, () => {
        this.slices.delete(at);
        slice!.pass();
      });
    }
    return slice;
  }
}

class Slice implements Deadline {
  private readonly controller = new AbortController();
  private readonly waiters: Array<() => void> = [];

  get signal(): AbortSignal {
    return this.controller.signal;
  }

  readonly onPassed = (f: () => void): void => {
    this.waiters.push(f);
  };

  pass(): void {
    this.controller.abort();
    for (const waiter of this.waiters) waiter();
    this.waiters.length = 0;
  }
}
