/** The rule by which hosts divide shards ends from any beginning, fairly and without waste. */
import fc from "../kit/property.ts";
import { describe, expect, test } from "vitest";
import { fairShare } from "../../services/host/load/fairShare.ts";

/** Lets one host after another act on what all see until none wants to; counts what moved. */
function settle(shards: number, holders: Array<string | undefined>, hosts: ReadonlyArray<string>) {
  let moves = 0;
  for (let round = 0; round < shards * hosts.length + hosts.length; round++) {
    let calm = true;
    for (const self of hosts) {
      const taken = holders.filter((holder) => holder !== undefined);
      const share = fairShare({ shards, self, hosts, holders: taken });
      const own = holders.flatMap((holder, shard) => (holder === self ? [shard] : []));
      const free = holders.findIndex((holder) => holder === undefined);
      if (own.length > share) holders[own[0]!] = undefined;
      else if (own.length < share && free >= 0) {
        holders[free] = self;
        moves++;
      } else continue;
      calm = false;
    }
    if (calm) return { calm, moves };
  }
  return { calm: false, moves };
}

const names = (count: number): string[] => Array.from({ length: count }, (_, n) => `host-${n}`);
const countsOf = (holders: ReadonlyArray<string | undefined>, hosts: ReadonlyArray<string>) =>
  hosts.map((host) => holders.filter((holder) => holder === host).length);

describe("the fair share", () => {
  test("gives every shard an owner from any distribution, with at most one shard of difference between hosts", () => {
    const worlds = fc.record({ shards: fc.integer({ min: 1, max: 40 }), hosts: fc.integer({ min: 1, max: 7 }) }); // prettier-ignore
    fc.assert(
      fc.property(worlds, fc.infiniteStream(fc.nat(8)), ({ shards, hosts }, picks) => {
        const live = names(hosts);
        // Some are held by hosts that are gone no more: those are free, as their leases are.
        const holders = [...picks.take(shards)].map((pick) => live[pick]);
        const { calm } = settle(shards, holders, live);
        const counts = countsOf(holders, live);
        expect(calm).toBe(true);
        expect(holders).not.toContain(undefined);
        expect(Math.max(...counts) - Math.min(...counts)).toBeLessThanOrEqual(1);
      }),
    );
  });

  test("gives a joining host its share and moves no other shard", () => {
    const holders: Array<string | undefined> = [];
    expect(settle(64, Object.assign(holders, Array(64).fill("host-0")), names(3)).moves).toBe(42);
    expect(countsOf(holders, names(3)).toSorted()).toEqual([21, 21, 22]);
    expect(settle(64, holders, names(4)).moves).toBe(16);
  });

  test("moves only the shards of a host that leaves", () => {
    const holders: Array<string | undefined> = Array(64).fill("host-0");
    settle(64, holders, names(3));
    const left = holders.map((holder) => (holder === "host-2" ? undefined : holder));
    const gone = left.filter((holder) => holder === undefined).length;
    expect(settle(64, left, names(2)).moves).toBe(gone);
  });

  test("ignores a host whose lease has ended, although it still holds shards", () => {
    const holders = Array<string>(32).fill("gone");
    expect(fairShare({ shards: 64, self: "a", hosts: ["a", "b"], holders })).toBe(32);
  });
});
