/**
 * Whether one turn holds the main thread, from the looks of one hold. Turns that wait for the same
 * answer continue together, and so may hold the thread for longer than any of them may: none of
 * them is to blame. Pure; `watchdogThread` looks.
 *
 * 1. Only the time since a turn was first found counts against it. The turn of the first look
 *    counts from the begin of the hold.
 * 2. A look that finds no turn (native code, code of Node between two microtasks) does not
 *    interrupt the time of the one that was found before.
 */
import type { PausedCode } from "./pausedCode.ts";

/** What was found out about a hold, up to its last look. */
export interface Judged {
  /** Undefined: the code can't be paused. */
  readonly code: PausedCode | undefined;
  /** Milliseconds, from the begin of the hold to the look. */
  readonly heldMs: number;
  /** As `heldMs`: from when the turn counts as the one that holds the thread. */
  readonly sinceMs: number;
  /** The last turn that was found (`PausedCode.run`). */
  readonly run: number | undefined;
}

/** `before`: the judgement of the look before, in the same hold. */
export function judgeLook(
  before: Judged | undefined,
  { code, heldMs }: Pick<Judged, "code" | "heldMs">,
): Judged {
  const run = code?.run ?? before?.run;
  const isSame = before?.run === undefined || before.run === run;
  return { code, heldMs, run, sinceMs: isSame ? (before?.sinceMs ?? 0) : heldMs };
}
