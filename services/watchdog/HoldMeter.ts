/**
 * Measures how long the main thread has been held, from the beats that the watchdog sees.
 *
 * 1. Time counts only while the watchdog itself runs: time in which the machine was suspended, or
 *    so busy that it ran neither thread, does not.
 * 2. Time in which the main thread waited for a processor does not count either, where the system
 *    reports it (Linux). A short turn on an overloaded machine would be ended otherwise. A thread
 *    that sleeps in a synchronous call waits for no processor, so that time counts.
 */
import { readFileSync } from "node:fs";

/** The most that one look may add. The watchdog looks every 50 ms. */
const COUNTED_MS_MAX = 200;

export class HoldMeter {
  private beats = -1;
  private lookedMs: number | undefined;
  /** Rule 2, at the last look of the present hold. */
  private waitedMs: number | undefined;
  private held = 0;

  /** `waitedMs`: rule 2, since the process began. */
  constructor(private readonly readWaitedMs: () => number = mainThreadWaitedMs) {}

  /** Milliseconds since the last beat, as far as they count. */
  look(beats: number, nowMs: number): number {
    const passedMs = this.lookedMs === undefined ? 0 : nowMs - this.lookedMs;
    this.lookedMs = nowMs;
    if (beats !== this.beats) {
      this.beats = beats;
      this.waitedMs = undefined;
      return (this.held = 0);
    }
    const waitedMs = this.readWaitedMs();
    const waited = waitedMs - (this.waitedMs ?? waitedMs);
    this.waitedMs = waitedMs;
    // The system adds a wait when it is over, so a part may be of the time before the last look.
    this.held = Math.max(0, this.held + Math.min(passedMs - waited, COUNTED_MS_MAX));
    return this.held;
  }
}

/** The second number is nanoseconds in the run queue. Constant where there is no such file. */
export function mainThreadWaitedMs(): number {
  try {
    return Number(readFileSync("/proc/self/schedstat", "utf8").split(" ")[1]) / 1e6 || 0;
  } catch {
    return 0;
  }
}
