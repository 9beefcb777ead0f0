/**
 * Deadlines for many requests with few timers: all that fall into one slice of time share a timer and
 * an AbortSignal. A hot path: a signal of its own for each webhook would cost more than its signature.
 *
 * A slice lives for seconds, the requests in it mostly for milliseconds. So what waits for it is taken
 * out again when it is done with: else the collector would carry every request of the last seconds.
 */
import { LinkedList } from "../../core/collections/LinkedList.ts";
import type { TimeShape } from "../../core/time/Time.ts";

/** Deadlines are seconds; answering up to this much late is within any provider's patience. */
const SLICE_MS = 50;

export interface Deadline {
  readonly signal: AbortSignal;
  /** Runs `f` when the deadline passes, unless the returned function was called before. */
  readonly onPassed: (f: () => void) => () => void;
}

export class Deadlines {
  private readonly time: TimeShape;
  private readonly slices = new Map<number, Slice>();
  private readonly timers = new Set<() => void>();

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
      const cancel = this.time.after(at * SLICE_MS - nowMs, () => {
        this.timers.delete(cancel);
        this.slices.delete(at);
        slice!.pass();
      });
      this.timers.add(cancel);
    }
    return slice;
  }

  /** No deadline passes any more: a process that has answered everything must not wait for them to end. */
  close(): void {
    for (const cancel of this.timers) cancel();
    this.timers.clear();
  }
}

/** One for all: an error of its own for each slice takes a trace of the stack each time. */
const PASSED = new DOMException("The deadline has passed", "TimeoutError");

class Slice implements Deadline {
  private readonly controller = new AbortController();
  private readonly waiters = new LinkedList<() => void>();

  get signal(): AbortSignal {
    return this.controller.signal;
  }

  readonly onPassed = (f: () => void): (() => void) => {
    const link = this.waiters.add(f);
    return () => link.leave();
  };

  pass(): void {
    this.controller.abort(PASSED);
    for (const waiter of this.waiters.drain()) waiter();
  }
}
