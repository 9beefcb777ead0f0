/** Half of the 2,000 seeds that each CI run is to show (docs/reliability.md); `npm run sim` goes further. */
import { test } from "vitest";
import { SEEDS_TIMEOUT_MS, simulateSeeds } from "./simulateSeeds.ts";

test("every invariant holds in every seed", { timeout: SEEDS_TIMEOUT_MS }, () =>
  simulateSeeds(1_001, 1_000),
);
