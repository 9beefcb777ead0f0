/**
 * Timers of one length, for thousands of things of which nearly none waits to the end: those that wait share one timer of
 * the clock's. Since all wait equally long, the order in which they began is that in which they end.
 *
 * A hot path: each durable turn that writes begins one, and a timer of its own for each is a kilobyte to collect.
 */
import { LinkedList } from "../collections/LinkedList.ts";
import type { TimeShape } from "./Time.ts";

interface Waiting {
  readonly dueMs: number;
  readonly run: () => void;
}

export class EqualTimers {
  private readonly time: TimeShape;
  private readonly ms: number;
  /** In the order in which they fall due. */
  private readonly waiting = new LinkedList<Waiting>();
  private armed = false;

  constructor(time: TimeShape, ms: number) {
    this.time = time;
    this.ms = ms;
  }

  /** Runs `f` after `ms`, unless the returned function was called before. */
  after(f: () => void): () => void {
    const link = this.waiting.add({ dueMs: this.time.monotonicMs() + this.ms, run: f });
    if (!this.armed) this.arm(this.ms);
    return () => link.leave();
  }

  /** The timer is not cancelled with the last that waits: under load the next is there before it is due. */
  private arm(ms: number): void {
    this.armed = true;
    this.time.after(ms, () => {
      const nowMs = this.time.monotonicMs();
      // Also those that one of them begins: it is armed still, so they arm no second timer.
      for (let next = this.waiting.first; next !== undefined; next = this.waiting.first) {
        if (next.dueMs > nowMs) return this.arm(next.dueMs - nowMs);
        this.waiting.shift();
        next.run();
      }
      this.armed = false;
    });
  }
}
