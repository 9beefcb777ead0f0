/**
 * Deadlines of one common length, for thousands of things at once: since every entry waits equally
 * long, the order they were added in is the order they expire in, so adding, removing and expiring
 * are constant time and one coarse interval serves a whole server. The clock is the caller's: the
 * owner calls `sweep` from its interval. An entry expires up to one interval late, never early.
 */

export class TimeoutQueue<Entry> {
  readonly #deadlines = new Map<Entry, number>();
  readonly #timeoutMs: number;
  readonly #expire: (entry: Entry) => void;

  constructor(timeoutMs: number, expire: (entry: Entry) => void) {
    this.#timeoutMs = timeoutMs;
    this.#expire = expire;
  }

  /** Adding an entry again starts its time anew. */
  add(entry: Entry, nowMs: number): void {
    this.#deadlines.delete(entry);
    this.#deadlines.set(entry, nowMs + this.#timeoutMs);
  }

  remove(entry: Entry): void {
    this.#deadlines.delete(entry);
  }

  sweep(nowMs: number): void {
    for (const [entry, deadline] of this.#deadlines) {
      if (deadline > nowMs) return;
      this.#deadlines.delete(entry);
      this.#expire(entry);
    }
  }
}

// Timeouts here are seconds long; a quarter of one late is not noticed, and an idle server wakes
// once a second at most. Below 50 ms the interval would cost more than it tells.
const SWEEP_MS_MIN = 50;
const SWEEP_MS_MAX = 1_000;

/** How often to sweep queues of which the shortest timeout is this. */
export const sweepIntervalMs = (shortestTimeoutMs: number): number =>
  Math.min(SWEEP_MS_MAX, Math.max(SWEEP_MS_MIN, Math.floor(shortestTimeoutMs / 4)));
