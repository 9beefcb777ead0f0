/** A task that repeats. */
import { expect, test } from "vitest";
import { interval } from "../../core/time/interval.ts";

/** A clock whose timers run when the test says so. */
function heldClock() {
  const timers = new Set<() => void>();
  return {
    time: {
      after: (_ms: number, f: () => void) => {
        timers.add(f);
        return () => void timers.delete(f);
      },
    },
    timers,
    fire: () => {
      const due = [...timers];
      timers.clear();
      for (const f of due) f();
    },
  };
}

/** All that promises lead to has run. */
const settled = () => new Promise((resolve) => setImmediate(resolve));

test("a run begins only after the run before it has ended", async () => {
  const clock = heldClock();
  const ends: Array<() => void> = [];
  interval(clock.time, 1_000, () => new Promise((resolve) => ends.push(resolve)));
  clock.fire();
  await settled();
  expect([ends.length, clock.timers.size]).toEqual([1, 0]);
  ends[0]!();
  await settled();
  clock.fire();
  expect(ends).toHaveLength(2);
});

test("an interval that is cancelled during a run does not run again", async () => {
  const clock = heldClock();
  const ends: Array<() => void> = [];
  const cancel = interval(clock.time, 1_000, () => new Promise((resolve) => ends.push(resolve)));
  clock.fire();
  cancel();
  ends[0]!();
  await settled();
  expect(clock.timers.size).toBe(0);
});

test("an interval that is cancelled between two runs does not run again", () => {
  const clock = heldClock();
  let runs = 0;
  const cancel = interval(clock.time, 1_000, () => void runs++);
  clock.fire();
  cancel();
  clock.fire();
  expect(runs).toBe(1);
});

test("an interval whose run throws runs again", () => {
  const clock = heldClock();
  let runs = 0;
  interval(clock.time, 1_000, () => {
    if (runs++ === 0) throw new Error("its own");
  });
  expect(clock.fire).toThrow("its own");
  clock.fire();
  expect(runs).toBe(2);
});
