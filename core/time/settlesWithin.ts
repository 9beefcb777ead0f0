/** Waits for something for a limited time, by the port's clock. */
import type { TimeShape } from "./Time.ts";

/** Whether `work` resolves within `ms`; it goes on if not. Rejects as it does. */
export async function settlesWithin(
  time: Pick<TimeShape, "after">,
  ms: number,
  work: Promise<unknown>,
): Promise<boolean> {
  let cancel = (): void => undefined;
  const late = new Promise<false>((resolve) => {
    cancel = time.after(ms, () => resolve(false));
  });
  try {
    return await Promise.race([work.then(() => true), late]);
  } finally {
    cancel();
  }
}
