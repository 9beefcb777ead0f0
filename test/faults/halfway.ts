/** The work of `leftBehind.test.ts` stops halfway while `HELD` exists: its host is killed then. */
import { existsSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";

const { HELD = "" } = process.env;
const LOOK_MS = 50;

/** Resolves at once, but for the step in the middle of `steps`. */
export async function passHalfway(step: number, steps: number): Promise<void> {
  while (step === steps / 2 && existsSync(HELD)) await sleep(LOOK_MS);
}
