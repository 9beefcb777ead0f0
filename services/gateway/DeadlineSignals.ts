/**
 * Abort signals for the deadlines of webhooks. Deadlines of the same length that fall into one time
 * slice share a signal. This is a hot path: a separate signal for each webhook would cost more than
 * checking its signature.
 */
import type { TimeShape } from "../../core/time/Time.ts";
import type { TimeoutQueue } from "../../core/time/TimeoutQueue.ts";

/** Deadlines are in seconds, and every provider waits this much longer. */
const SLICE_MS = 25;

/** The reason of all signals. An error for each slice would capture the stack each time. */
const PASSED = new DOMException("The deadline has passed", "TimeoutError");

interface Shared {
  readonly signal: AbortSignal;
  readonly dueMs: number;
}

export class DeadlineSignals {
  /** The latest signal of each length. */
  private readonly latest = new Map<number, Shared>();

  constructor(
    private readonly time: Pick<TimeShape, "monotonicMs">,
    private readonly timeouts: TimeoutQueue,
  ) {}

  /** Aborts `ms` from now, or later by up to `SLICE_MS` and the slack of the queue. */
  in(ms: number): AbortSignal {
    const dueMs = this.time.monotonicMs() + ms;
    const latest = this.latest.get(ms);
    if (latest !== undefined && dueMs <= latest.dueMs) return latest.signal;
    const controller = new AbortController();
    const { signal } = controller;
    this.latest.set(ms, { signal, dueMs: dueMs + SLICE_MS });
    this.timeouts.after(ms + SLICE_MS, () => controller.abort(PASSED));
    return signal;
  }
}
