/**
 * Measures how long the main thread has been held, from the beats that the watchdog sees. Pure.
 *
 * Time counts only while the watchdog itself runs: time in which the machine was suspended, or so
 * busy that it ran neither thread, does not.
 */

/** The most that one look may add. The watchdog looks every 50 ms. */
const COUNTED_MS_MAX = 200;

export class HoldMeter {
  private beats = -1;
  private lookedMs: number | undefined;
  private held = 0;

  /** Milliseconds since the last beat, as far as they count. */
  look(beats: number, nowMs: number): number {
    const passedMs = this.lookedMs === undefined ? 0 : nowMs - this.lookedMs;
    this.lookedMs = nowMs;
    this.held = beats === this.beats ? this.held + Math.min(passedMs, COUNTED_MS_MAX) : 0;
    this.beats = beats;
    return this.held;
  }
}
