/**
 * The work of `leftBehind.test.ts` stops halfway while the file `HELD` exists: on a machine of any
 * speed, the first host is killed in the middle of it.
 */
import { existsSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";

const { HELD = "" } = process.env;
const LOOK_MS = 50;

/** Resolves at once, but for the step in the middle of `steps`. */
export async function passHalfway(step: number, steps: number): Promise<void> {
  while (step === steps / 2 && existsSync(HELD)) await sleep(LOOK_MS);
}
