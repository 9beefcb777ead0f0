/**
 * One attempt of a step's function, of a turn or of a workflow, with a time limit. JavaScript can't
 * stop a function that goes on past it, so its result is ignored.
 */
import type { TimeShape } from "../time/Time.ts";

/**
 * Settles as `f` does, or rejects with the error of `late` after `ms`, which `onLate` receives as
 * well: for the function's signal.
 */
export function runWithin<A>(
  time: Pick<TimeShape, "after">,
  ms: number,
  { late, onLate }: { readonly late: () => Error; readonly onLate: (error: Error) => void },
  f: () => A | Promise<A>,
): Promise<A> {
  return new Promise((resolve, reject) => {
    const cancel = time.after(ms, () => {
      const error = late();
      reject(error);
      onLate(error);
    });
    const run = async (): Promise<A> => f();
    run().then(resolve, reject).finally(cancel);
  });
}
