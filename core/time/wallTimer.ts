/**
 * Timers for a time of the wall clock, which may be set, or continue while the machine sleeps. The
 * timers of `Time` measure the machine's running time, so they notice neither.
 */
import type { TimeShape } from "./Time.ts";

/** How late a set clock is noticed. A look costs a microsecond. */
const LOOK_MS = 60_000;

/**
 * Runs `look` when the wall clock shows `atMs`, or earlier: `look` checks the time, and calls this
 * again. The returned function cancels.
 */
export const wallTimer = (
  time: Pick<TimeShape, "nowMs" | "after">,
  atMs: number,
  look: () => void,
): (() => void) => time.after(Math.min(Math.max(0, atMs - time.nowMs()), LOOK_MS), look);
