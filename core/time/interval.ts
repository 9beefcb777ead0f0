/** A task that repeats, by the port's clock. */
import type { TimeShape } from "./Time.ts";

/**
 * Runs `f` again and again, each time `ms` after the last run has ended, until the returned
 * function is called. An error of `f` is unhandled, and `f` runs again.
 */
export function interval(
  time: Pick<TimeShape, "after">,
  ms: number,
  f: () => Promise<void> | void,
): () => void {
  let isOver = false;
  let cancel = (): void => undefined;
  const again = (): void => {
    if (!isOver) cancel = time.after(ms, run);
  };
  const run = (): void => {
    let running: Promise<void> | void = undefined;
    try {
      running = f();
    } finally {
      if (running === undefined) again();
      else void running.finally(again);
    }
  };
  again();
  return () => {
    isOver = true;
    cancel();
  };
}
