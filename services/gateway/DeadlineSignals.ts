/**
 * Abort signals for the deadlines of webhooks. Deadlines of one length that fall into one slice of
 * time share a signal. A hot path: a signal of its own for each webhook would cost more than the
 * check of the webhook's signature.
 */
import type { TimeShape } from "../../core/time/Time.ts";
import type { TimeoutQueue } from "../../core/time/TimeoutQueue.ts";

/** Deadlines are seconds: any provider is patient enough for this much more. */
const SLICE_MS = 25;

/** The reason of all signals: an error for each slice would take a trace of the stack each time. */
const PASSED = new DOMException("The deadline has passed", "TimeoutError");

interface Shared {
  readonly signal: AbortSignal;
  readonly dueMs: number;
}

export class DeadlineSignals {
  private readonly time: Pick<TimeShape, "monotonicMs">;
  private readonly timeouts: TimeoutQueue;
  /** The latest of each length. */
  private readonly latest = new Map<number, Shared>();

  constructor(time: Pick<TimeShape, "monotonicMs">, timeouts: TimeoutQueue) {
    this.time = time;
    this.timeouts = timeouts;
  }

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
