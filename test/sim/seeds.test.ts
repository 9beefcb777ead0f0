/**
 * Every invariant in as many seeds as the suite has time for. This file is begun first (`vitest.config.ts`) and runs at the lowest
 * priority beside others: much of the suite waits, and the seeds take what the cores have left meanwhile.
 * `SIM_SEEDS` says how many instead; how many ran is printed.
 */
import { constants, setPriority } from "node:os";
import { expect, test } from "vitest";
import { simulate } from "./simulate.ts";

/** All of a CI run, installing and building too, is to end within 10 minutes on two cores; the rest of the suite takes 350 to 500 s, by the day. */
const BUDGET_MS = 480_000;
/** What each CI run is to show (docs/reliability.md); `npm run sim` goes further. */
const SEEDS_MAX = 2_000;
/** Fewer would not be a test; a machine that is busy elsewhere gets these, at the usual priority. */
const SEEDS_MIN = 30;
/** A machine that is too slow for the least number of seeds in this time is broken. */
const TIMEOUT_MS = 900_000;

const FIRST_SEED = 1_001;

test("every invariant holds in every seed", { timeout: TIMEOUT_MS }, async () => {
  const wanted = Number(process.env["SIM_SEEDS"] ?? 0);
  const bites = new Map<string, number>();
  const startMs = performance.now();
  let ran = 0;
  for (; ran < (wanted || SEEDS_MAX); ran++) {
    if (wanted === 0 && ran >= SEEDS_MIN && performance.now() - startMs > BUDGET_MS) break;
    // This process is this file's alone.
    if (ran === SEEDS_MIN) setPriority(constants.priority.PRIORITY_LOW);
    const seed = FIRST_SEED + ran;
    const report = await simulate({ seed });
    expect({ seed, violations: report.violations }).toEqual({ seed, violations: [] });
    for (const [fault, count] of report.bites) bites.set(fault, (bites.get(fault) ?? 0) + count);
  }
  const seconds = (performance.now() - startMs) / 1000;
  console.log(
    `${ran} seeds were simulated, from ${FIRST_SEED} on, in ${seconds.toFixed(0)} s: ${(ran / seconds).toFixed(1)} seeds/s`,
  );
  if (ran < SEEDS_MIN) return;
  // A fault that never struck shows nothing.
  const common = [
    "crash host",
    "freeze host",
    "append refused",
    "repeated",
    "ack lost",
    "hibernated",
  ];
  const errands = ["errand: pause", "errand: terminate", "errand: restart"];
  const others = [
    "killed by an input",
    "duplicate dropped",
    "erased",
    "mail accepted",
    "batch: lost",
  ];
  for (const fault of [...common, ...errands, ...others])
    expect([fault, bites.get(fault) ?? 0]).not.toEqual([fault, 0]);
});
