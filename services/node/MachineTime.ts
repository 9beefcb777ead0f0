/** The machine's clock, timers and randomness as `core/time/Time`. Used by every process. */
import { randomFillSync } from "node:crypto";
import type { TimeShape } from "../../core/time/Time.ts";

/** Node runs a longer timer at once, so a longer wait is made of several timers. */
const TIMER_MS_MAX = 2 ** 31 - 1;
const ID_BYTES = 16;
/** Random bytes are fetched for this many ids at once: singly, they are most of an id's cost. */
const IDS_AT_ONCE = 256;

function idMaker(): () => string {
  const pool = Buffer.alloc(ID_BYTES * IDS_AT_ONCE);
  let at = pool.length;
  return () => {
    if (at === pool.length) {
      randomFillSync(pool);
      at = 0;
    }
    return pool.toString("base64url", at, (at += ID_BYTES));
  };
}

export const machineTime: TimeShape = {
  nowMs: () => Date.now(),
  monotonicMs: () => performance.now(),
  after: (ms, f) => {
    let timer: NodeJS.Timeout;
    const arm = (leftMs: number): void => {
      timer =
        leftMs > TIMER_MS_MAX
          ? setTimeout(() => arm(leftMs - TIMER_MS_MAX), TIMER_MS_MAX)
          : setTimeout(f, Math.max(0, leftMs));
    };
    arm(ms);
    return () => clearTimeout(timer);
  },
  id: idMaker(),
  random: () => Math.random(),
};
