/** The other half, for the other core. */
import { test } from "vitest";
import { SEEDS_TIMEOUT_MS, simulateSeeds } from "./simulateSeeds.ts";

test("every invariant holds in every seed", { timeout: SEEDS_TIMEOUT_MS }, () =>
  simulateSeeds(2_001, 1_000),
);
