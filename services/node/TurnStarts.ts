/**
 * Spreads turns that arrive together over passes of the event loop. Code that computes for 20 ms is
 * short, but a burst of 400 such turns would hold the thread for 8 s: leases would be lost, and the
 * watchdog would blame the turn that it finds. Between two passes everything else runs.
 *
 * 1. A turn begins at once while its pass has begun few. The rest wait, in order of arrival.
 * 2. A pass that took long is followed by one that begins fewer, and at least one. One that did not
 *    may be followed by one that begins twice as many.
 */

/** How many may always begin after a pass in time: more than arrive in most. */
const TURNS_MIN = 16;
/** Thousands of agents that wake have short turns: they wait for nothing but their wake-up. */
const TURNS_MAX = 256;
/** Below the 200 ms from which the watchdog logs that a turn has held the thread. */
const PASS_MS = 150;

export class TurnStarts {
  private readonly waiting: Array<() => void> = [];
  /** The turns that began in this pass. */
  private begun = 0;
  private allowed = TURNS_MIN;
  private passEnds = false;
  private passMs = 0;

  /** Undefined if a turn may begin now; otherwise resolves when it may. */
  readonly next = (): Promise<void> | undefined => {
    if (!this.passEnds) this.beginPass(0);
    if (this.waiting.length > 0 || this.begun >= this.allowed)
      return new Promise((resolve) => this.waiting.push(resolve));
    this.begun++;
    return undefined;
  };

  private beginPass(begun: number): void {
    this.begun = begun;
    this.passEnds = true;
    this.passMs = performance.now();
    setImmediate(() => this.endPass());
  }

  private endPass(): void {
    const tookMs = performance.now() - this.passMs;
    this.allowed =
      tookMs > PASS_MS
        ? Math.max(1, Math.floor((this.begun * PASS_MS) / tookMs))
        : Math.min(TURNS_MAX, Math.max(TURNS_MIN, this.begun * 2));
    this.passEnds = false;
    const ready = this.waiting.splice(0, this.allowed);
    if (ready.length > 0) this.beginPass(ready.length);
    for (const begin of ready) begin();
  }
}
