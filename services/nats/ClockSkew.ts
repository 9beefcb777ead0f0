/**
 * By how much this machine's clock differs from the broker's, from the times at which the broker
 * stored what arrives here (`LeaseWatch`). A message may arrive late, never early: the smallest
 * difference in a while is the clocks'. Schedules are armed by this machine's clock and fire by the
 * broker's, and the signatures of webhooks have times.
 */

/** A schedule that runs later was missed (`dueTimes`), and no fast message of a busy machine is. */
const SKEW_MS_MAX = 5_000;
/** A process that stood still receives what was stored meanwhile at once: it ends no span. */
const SPAN_MS = 10_000;

export class ClockSkew {
  private sinceMs = 0;
  private leastMs = Infinity;
  private toldMs = 0;

  /**
   * Returns the difference in milliseconds, at the end of a span in which it became too large, or
   * another one. Above 0: this clock is ahead. `monotonicMs`: of the arrival.
   */
  saw(storedMs: number, nowMs: number, monotonicMs: number): number | undefined {
    if (this.leastMs === Infinity) this.sinceMs = monotonicMs;
    this.leastMs = Math.min(this.leastMs, nowMs - storedMs);
    if (monotonicMs - this.sinceMs < SPAN_MS) return undefined;
    const skewMs = this.leastMs;
    this.leastMs = Infinity;
    if (Math.abs(skewMs - this.toldMs) <= SKEW_MS_MAX) return undefined;
    this.toldMs = skewMs;
    return Math.abs(skewMs) > SKEW_MS_MAX ? skewMs : undefined;
  }
}
