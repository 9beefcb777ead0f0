/** A signal with a time limit, by the port's clock. */
import type { TimeShape } from "./Time.ts";

/** Fires when `parent` does, or once `ms` have passed. Call `free` when it is no longer needed. */
export function limitedSignal(
  time: Pick<TimeShape, "after">,
  parent: AbortSignal,
  ms: number,
): { readonly signal: AbortSignal; readonly free: () => void } {
  const limit = new AbortController();
  const abort = (): void => limit.abort();
  parent.addEventListener("abort", abort, { once: true });
  const cancel = time.after(ms, abort);
  const free = (): void => {
    cancel();
    parent.removeEventListener("abort", abort);
  };
  return { signal: limit.signal, free };
}
