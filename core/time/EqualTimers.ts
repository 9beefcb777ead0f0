/**
 * Timers of one length, for thousands of things of which nearly none waits to the end: those that wait share one timer of
 * the clock's. Since all wait equally long, the order in which they began is that in which they end.
 *
 * A hot path: each durable turn that writes begins one, and a timer of its own for each is a kilobyte to collect.
 */
import type { TimeShape } from "./Time.ts";

interface Waiting {
  readonly dueMs: number;
  readonly run: () => void;
}

export class EqualTimers {
  private readonly time: TimeShape;
  private readonly ms: number;
  /** In the order in which they fall due. */
  private readonly waiting = new Set<Waiting>();
  private armed = false;

  constructor(time: TimeShape, ms: number) {
    this.time = time;
    this.ms = ms;
  }

  /** Runs `f` after `ms`, unless the returned function was called before. */
  after(f: () => void): () => void {
    const entry: Waiting = { dueMs: this.time.monotonicMs() + this.ms, run: f };
    this.waiting.add(entry);
    if (!this.armed) this.arm(this.ms);
    return () => this.waiting.delete(entry);
  }

  /** The timer is not cancelled with the last that waits: under load the next is there before it is due. */
  private arm(ms: number): void {
    this.armed = true;
    this.time.after(ms, () => {
      const nowMs = this.time.monotonicMs();
      // Also those that one of them begins: it is armed still, so they arm no second timer.
      for (const entry of this.waiting) {
        if (entry.dueMs > nowMs) return this.arm(entry.dueMs - nowMs);
        this.waiting.delete(entry);
        entry.run();
      }
      this.armed = false;
    });
  }
}
