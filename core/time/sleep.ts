/** A pause by the port's clock, which tests move by hand. */
import type { TimeShape } from "./Time.ts";

export const sleep = (time: Pick<TimeShape, "after">, ms: number): Promise<void> =>
  new Promise((resolve) => time.after(ms, resolve));
