/** A host dies at every named crash point, again and again; every invariant holds after it. */
import { expect, test } from "vitest";
import { CRASH_POINTS } from "./rig/crashPoints.ts";
import { simulate } from "./simulate.ts";

/** Deaths at each point; `npm run sim -- --crash-at` tries one as often as wanted. */
const DEATHS_MIN = 2;
const SEEDS_MAX = 100;
/** Enough for hosts to reach most points; with fewer deaths than would stop all progress. */
const STEPS = 25;

test.each(CRASH_POINTS)("a host that dies at %s violates no invariant", async (point) => {
  let deaths = 0;
  for (let seed = 1; seed <= SEEDS_MAX && deaths < DEATHS_MIN; seed++) {
    const { violations, diedAt } = await simulate({ seed, steps: STEPS, crashAt: point });
    expect({ seed, violations }).toEqual({ seed, violations: [] });
    deaths += diedAt.filter((at) => at === point).length;
  }
  expect(deaths).toBeGreaterThanOrEqual(DEATHS_MIN);
});
