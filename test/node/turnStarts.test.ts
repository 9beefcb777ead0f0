/** How turns that arrive together are spread over passes of the event loop. */
import { setImmediate as nextPass } from "node:timers/promises";
import { expect, test } from "vitest";
import { TurnStarts } from "../../services/node/TurnStarts.ts";

const MANY = 200;

/** Begins turns at once, each with `work`; `begun` has their numbers. */
function begin(count: number, work: () => void = () => undefined) {
  const starts = new TurnStarts();
  const begun: number[] = [];
  const all = Promise.all(
    Array.from({ length: count }, async (_, n) => {
      const pause = starts.next();
      if (pause !== undefined) await pause;
      begun.push(n);
      work();
    }),
  );
  return { starts, begun, all };
}

const hold = (ms: number): void => {
  const end = performance.now() + ms;
  while (performance.now() < end);
};

test("few turns begin at once", () => {
  expect(begin(10).begun).toHaveLength(10);
});

test("of many, the rest begin in later passes, in order, and all else runs between", async () => {
  const { begun, all } = begin(MANY);
  const first = begun.length;
  expect(first).toBeLessThan(MANY / 2);
  const passes: number[] = [];
  while (begun.length < MANY) {
    await nextPass();
    passes.push(begun.length);
  }
  await all;
  expect(passes.length).toBeGreaterThan(2);
  expect(begun).toEqual(Array.from({ length: MANY }, (_, n) => n));
});

test("a turn that arrives while others wait begins after them", async () => {
  const { starts, begun, all } = begin(MANY);
  await starts.next();
  expect(begun).toHaveLength(MANY);
  await all;
});

test("after a pass that took long, fewer begin in the next, and at least one", async () => {
  const { begun, all } = begin(MANY, () => hold(20));
  const first = begun.length;
  while (begun.length === first) await nextPass();
  const second = begun.length - first;
  expect(second).toBeLessThan(first / 2);
  await all;
});

test("after a pause, as many begin at once as before", async () => {
  const { starts, all } = begin(MANY);
  await all;
  await nextPass();
  expect(starts.next()).toBeUndefined();
});
