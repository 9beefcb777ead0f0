/**
 * What the checkers are worth: each planted bug is caught by an invariant that it breaks, within a bounded number of
 * seeds; and the checkers that a run has no bug for are shown to bite by hand.
 */
import { describe, expect, test } from "vitest";
import { checkErasedIsGone } from "./checkers/journals.ts";
import { PLANTED_BUGS, type PlantedBug } from "./plantedBugs.ts";
import { simulate } from "./simulate.ts";

/** A bug that needs more seeds than this to show would be missed by a suite on a busy machine. */
const SEEDS_MAX = 25;

describe("a planted bug is caught", () => {
  test.each(PLANTED_BUGS.map((bug) => [bug.name, bug] as const))(
    "%s",
    { timeout: 120_000 },
    async (_name, bug) => {
      const { seed, seen } = await firstCatch(bug);
      expect({ caught: seed !== undefined, seen: [...seen] }).toMatchObject({ caught: true });
    },
  );
});

test("what is left of an erased agent is found wherever it lies", () => {
  const bytes = new TextEncoder().encode('{"v":1}\nits secret is here');
  expect(checkErasedIsGone([{ where: "an event", bytes }], ["its secret"])).toHaveLength(1);
  expect(checkErasedIsGone([{ where: "an event", bytes }], ["another"])).toEqual([]);
});

async function firstCatch(
  bug: PlantedBug,
): Promise<{ readonly seed: number | undefined; readonly seen: ReadonlySet<string> }> {
  const seen = new Set<string>();
  const rest = Array.from({ length: SEEDS_MAX }, (_, n) => n + 1);
  for (const seed of new Set([bug.caughtBy ?? 1, ...rest])) {
    const { violations } = await simulate({ seed, bug });
    for (const { invariant } of violations) seen.add(invariant);
    if (violations.some(({ invariant }) => bug.breaks.includes(invariant))) return { seed, seen };
  }
  return { seed: undefined, seen };
}
