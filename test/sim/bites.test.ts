/** Tests the checkers: each planted bug is caught, within a bounded number of seeds. */
import { describe, expect, test } from "vitest";
import { agentId, shardOf } from "../../schemas/Address.ts";
import { keyOfShard } from "../../core/lease/leaseKeys.ts";
import { checkAttemptsAreBounded } from "./checkers/inputs.ts";
import { checkErasedIsGone } from "./checkers/journals.ts";
import { SHARDS } from "./Installation.ts";
import { Observed } from "./rig/Observed.ts";
import { PLANTED_BUGS, type PlantedBug } from "./planted/plantedBugs.ts";
import type { RunHistory } from "./rig/RunHistory.ts";
import { simulate } from "./simulate.ts";

/** A bug that needs more seeds than this to show would be missed by a suite on a busy machine. */
const SEEDS_MAX = 25;

describe("a planted bug is caught", () => {
  test.each(PLANTED_BUGS.map((bug) => [bug.name, bug] as const))("%s", async (_name, bug) => {
    const { seed, seen } = await firstCatch(bug);
    expect({ caught: seed !== undefined, seen: [...seen] }).toMatchObject({ caught: true });
  });
});

test("traces of an erased agent are found wherever they are", () => {
  const bytes = new TextEncoder().encode('{"v":1}\nits secret is here');
  expect(checkErasedIsGone([{ where: "an event", bytes }], ["its secret"])).toHaveLength(1);
  expect(checkErasedIsGone([{ where: "an event", bytes }], ["another"])).toEqual([]);
});

test("an input may kill one more host for each of its shard's leases that ended early", () => {
  const AT_MS = 1_000_000;
  const shard = shardOf(agentId("Ledger", "a"), SHARDS);
  const kills = (times: number, cuts: Observed["leasesCut"]): number => {
    const observed = new Observed();
    observed.copies.set("key", [AT_MS]);
    observed.leasesCut.push(...cuts);
    for (let n = 0; n < times; n++)
      observed.runs.push({
        agent: "a", key: "key", op: "kill", kind: "webhook", attempt: 1, host: "h", atMs: AT_MS, wallMs: AT_MS,
      }); // prettier-ignore
    return checkAttemptsAreBounded({ observed, agents: [] } as unknown as RunHistory).length;
  };
  const cut = { key: keyOfShard(shard), atMs: AT_MS + 500 };
  expect([kills(8, []), kills(9, [])]).toEqual([0, 1]);
  expect([kills(9, [cut]), kills(10, [cut])]).toEqual([0, 1]);
  expect(kills(9, [{ ...cut, atMs: AT_MS + 10_000 }])).toBe(1);
  expect(kills(9, [{ ...cut, key: "shard.other" }])).toBe(1);
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
