/**
 * When an agent that has ended no process is isolated all the same: its turns hold the thread of
 * its worker for half of the time, each for less than its limit, and its neighbours wait for one
 * after the other. Pure; `IsolationWard` counts.
 *
 * Time in which the thread waits for a processor is not part of a hold, so it is not part of the
 * window either: the agent may be as busy on a machine that is overloaded, or in a container whose
 * share of a processor is small.
 */

/** Long enough that a burst of work (an import, a report) isolates nobody. */
const WINDOW_MS = 60_000;
/** Half of it. `TimeSlices` lets the neighbours run between the turns. */
const HELD_MS_MAX = 30_000;

/** A hold of a worker's thread that was certainly the agent's. */
export interface Hold {
  /** The number of the worker. A hold of another's thread does not count. */
  readonly worker: number;
  /** Monotonic: when it was over, without the time that the thread has waited for a processor. */
  readonly atMs: number;
  readonly ms: number;
}

/** Returns the holds that still count, with the new one, and the seconds if they are too many. */
export function judgeHolds(
  before: ReadonlyArray<Hold>,
  hold: Hold,
): { readonly holds: ReadonlyArray<Hold>; readonly overSeconds: number | undefined } {
  const counts = ({ worker, atMs }: Hold): boolean =>
    worker === hold.worker && hold.atMs - atMs <= WINDOW_MS;
  const holds = [...before.filter(counts), hold];
  const heldMs = holds.reduce((sum, { ms }) => sum + ms, 0);
  return { holds, overSeconds: heldMs > HELD_MS_MAX ? Math.round(heldMs / 1000) : undefined };
}
