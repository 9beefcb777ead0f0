/**
 * Work that arrives in great numbers runs in slices, with pauses in which everything else runs;
 * work that arrives alone runs at once.
 */
import { expect, test } from "vitest";
import { slicesOf, TimeSlices } from "../../core/time/TimeSlices.ts";
import type { TimeShape } from "../../core/time/Time.ts";

/**
 * A clock that stands still but for what the test lets things cost; timers run when they are told
 * to.
 */
function standingClock() {
  let nowMs = 1_000;
  const timers: Array<() => void> = [];
  const time: TimeShape = {
    nowMs: () => nowMs,
    monotonicMs: () => nowMs,
    after: (_ms, f) => {
      timers.push(f);
      return () => undefined;
    },
    id: () => "id",
    random: () => 0,
  };
  return {
    time,
    timers,
    spend: (ms: number) => void (nowMs += ms),
    /** What else waits has its turn, and then the timer. */
    pass: async () => {
      timers.shift()?.();
      await new Promise((resolve) => setImmediate(resolve));
    },
  };
}

test("a single task runs at once, without a timer, however long the previous one took", () => {
  const clock = standingClock();
  const slices = new TimeSlices(clock.time);
  for (const costMs of [1, 50, 500]) {
    let ran = false;
    slices.run(() => {
      clock.spend(costMs);
      ran = true;
    });
    expect(ran).toBe(true);
    clock.spend(11);
    expect(slices.turn()).toBeUndefined();
    clock.spend(11);
  }
  expect(clock.timers).toHaveLength(0);
});

test("a hundred tasks of a millisecond each run in order, ten per slice", async () => {
  const clock = standingClock();
  const slices = new TimeSlices(clock.time);
  const ran: number[] = [];
  for (let n = 0; n < 100; n++)
    slices.run(() => {
      clock.spend(1);
      ran.push(n);
    });
  const upTo = [ran.length];
  while (ran.length < 100) {
    await clock.pass();
    upTo.push(ran.length);
  }
  expect(ran).toEqual(Array.from({ length: 100 }, (_, n) => n));
  expect(upTo).toEqual(Array.from({ length: 10 }, (_, n) => 10 * (n + 1)));
});

test("a task that begins with a promise counts with its first synchronous part", async () => {
  const clock = standingClock();
  const slices = new TimeSlices(clock.time);
  let begun = 0;
  const begin = async (): Promise<void> => {
    const turn = slices.turn();
    if (turn !== undefined) await turn;
    clock.spend(5);
    begun++;
  };
  for (let n = 0; n < 10; n++) void begin();
  expect(begun).toBe(2);
  const upTo: number[] = [];
  while (begun < 10) {
    await clock.pass();
    upTo.push(begun);
  }
  expect(upTo).toEqual([4, 6, 8, 10]);
});

test("a task longer than a slice is alone in it, and later ones queue behind those that wait", async () => {
  const clock = standingClock();
  const slices = new TimeSlices(clock.time);
  const ran: string[] = [];
  const add = (name: string, ms: number) =>
    slices.run(() => {
      clock.spend(ms);
      ran.push(name);
    });
  add("a", 20);
  add("b", 20);
  add("c", 1);
  expect(ran).toEqual(["a"]);
  await clock.pass();
  expect(ran).toEqual(["a", "b"]);
  add("d", 1);
  await clock.pass();
  expect(ran).toEqual(["a", "b", "c", "d"]);
});

test("a task that starts others has them run after those that wait", async () => {
  const clock = standingClock();
  const slices = new TimeSlices(clock.time);
  const ran: string[] = [];
  const note = (name: string) => () => {
    clock.spend(10);
    ran.push(name);
  };
  slices.run(note("a"));
  slices.run(() => {
    note("b")();
    slices.run(note("d"));
  });
  slices.run(note("c"));
  while (clock.timers.length > 0) await clock.pass();
  expect(ran).toEqual(["a", "b", "c", "d"]);
});

test("a process has one queue per clock", () => {
  const { time } = standingClock();
  expect(slicesOf(time)).toBe(slicesOf(time));
  expect(slicesOf(standingClock().time)).not.toBe(slicesOf(time));
});

test("one long task pauses whenever a slice is used up, whatever the length of its steps", async () => {
  for (const [stepMs, stepsASlice] of [
    [1, 10],
    [4, 3],
    [50, 1],
  ] as const) {
    const clock = standingClock();
    const slices = new TimeSlices(clock.time);
    let steps = 0;
    const work = async (): Promise<void> => {
      for (let n = 0; n < 30; n++) {
        await slices.yield();
        clock.spend(stepMs);
        steps++;
      }
    };
    const done = work();
    expect(steps).toBe(0);
    const upTo: number[] = [];
    while (steps < 30) {
      await clock.pass();
      upTo.push(steps);
    }
    await done;
    expect(upTo).toEqual(Array.from(upTo, (_, n) => stepsASlice * (n + 1)));
  }
});

test("several long tasks share a slice, step by step", async () => {
  const clock = standingClock();
  const slices = new TimeSlices(clock.time);
  const ran: string[] = [];
  const work = async (name: string): Promise<void> => {
    for (let n = 0; n < 4; n++) {
      await slices.yield();
      clock.spend(3);
      ran.push(name);
    }
  };
  const both = Promise.all([work("a"), work("b")]);
  await clock.pass();
  expect(ran.join("")).toBe("abab");
  while (ran.length < 8) await clock.pass();
  await both;
  expect(ran.join("")).toBe("abababab");
});
