/** Work that arrives in great numbers runs in slices, with pauses for everything else. */
import { beforeEach, expect, test } from "vitest";
import { slicesOf, TimeSlices, turnSlicesOf } from "../../core/time/TimeSlices.ts";
import type { TimeShape } from "../../core/time/Time.ts";
import { agentId } from "../../schemas/Address.ts";

/** A clock that moves only as the test lets things cost; timers run when they are told to. */
function standingClock() {
  let nowMs = 1_000;
  const timers: Array<readonly [ms: number, f: () => void]> = [];
  const time: TimeShape = {
    nowMs: () => nowMs,
    monotonicMs: () => nowMs,
    after: (ms, f) => {
      timers.push([ms, f]);
      return () => undefined;
    },
    id: () => "id",
    random: () => 0,
  };
  return {
    time,
    spend: (ms: number) => void (nowMs += ms),
    /** The event loop begins another pass: timers run, and what they lead to. */
    pass: async () => {
      for (const [, f] of timers.splice(0)) f();
      const gaps = timers.filter(([ms]) => ms > 0);
      for (const gap of gaps) {
        timers.splice(timers.indexOf(gap), 1);
        nowMs += gap[0];
        gap[1]();
      }
      await settled();
    },
  };
}

/** All that promises lead to has run. */
const settled = () => new Promise((resolve) => setImmediate(resolve));

/** What `looked` was after each pass, until it is `end`. */
async function eachPass(
  clock: ReturnType<typeof standingClock>,
  looked: () => number,
  end: number,
): Promise<number[]> {
  const seen: number[] = [];
  await settled();
  seen.push(looked());
  while (looked() < end) {
    await clock.pass();
    seen.push(looked());
  }
  return seen;
}

let clock: ReturnType<typeof standingClock>;
beforeEach(() => {
  clock = standingClock();
});

test("a single task runs at once, however long the previous one took", async () => {
  const slices = new TimeSlices(clock.time);
  for (const costMs of [1, 50, 500]) {
    let ran = false;
    slices.run(() => {
      clock.spend(costMs);
      ran = true;
    });
    expect(ran).toBe(true);
    await clock.pass();
    expect(slices.turn()).toBeUndefined();
    await clock.pass();
  }
});

test("a hundred tasks of a millisecond each run in order, ten per slice", async () => {
  const slices = new TimeSlices(clock.time);
  const ran: number[] = [];
  for (let n = 0; n < 100; n++)
    slices.run(() => {
      clock.spend(1);
      ran.push(n);
    });
  const upTo = await eachPass(clock, () => ran.length, 100);
  expect(ran).toEqual(Array.from({ length: 100 }, (_, n) => n));
  expect(upTo).toEqual(Array.from({ length: 10 }, (_, n) => 10 * (n + 1)));
});

test("a thousand tasks that cost nothing run in one slice, in order", async () => {
  const slices = new TimeSlices(clock.time);
  const ran: number[] = [];
  for (let n = 0; n < 1_000; n++) slices.run(() => ran.push(n));
  await settled();
  expect(ran).toEqual(Array.from({ length: 1_000 }, (_, n) => n));
});

test("eight tasks that begin with promises begin at once; for the rest, what they do counts", async () => {
  const slices = new TimeSlices(clock.time);
  let done = 0;
  const begin = async (): Promise<void> => {
    const turn = slices.turn();
    if (turn !== undefined) await turn;
    // As code does that awaits what it has already.
    for (let hop = 0; hop < 50; hop++) await Promise.resolve();
    clock.spend(5);
    done++;
  };
  for (let n = 0; n < 20; n++) void begin();
  expect(await eachPass(clock, () => done, 20)).toEqual([8, 10, 12, 14, 16, 18, 20]);
});

test("of work that arrives in callbacks of its own, all begins that the slice has time for", async () => {
  const slices = new TimeSlices(clock.time, 100);
  let begun = 0;
  for (let n = 0; n < 40; n++)
    await new Promise<void>((resolve) =>
      setImmediate(() => {
        if (slices.turn() === undefined) begun++;
        // What it does once its callback has returned.
        void Promise.resolve().then(() => clock.spend(5));
        resolve();
      }),
    );
  expect(begun).toBe(20);
});

test("work that arrives just as what waits begins does not overtake it", async () => {
  const slices = new TimeSlices(clock.time);
  for (let n = 0; n < 8; n++) slices.run(() => undefined);
  const begun: string[] = [];
  const begin = async (name: string): Promise<void> => {
    const turn = slices.turn(agentId("Board", "one"));
    if (turn !== undefined) await turn;
    begun.push(name);
  };
  void begin("first");
  const arrives = new Promise<void>((resolve) => process.nextTick(resolve));
  void arrives.then(() => begin("second"));
  await settled();
  expect(begun).toEqual(["first", "second"]);
});

test("a pass that begins while waiting work begins runs nothing twice, and leaves nothing out", async () => {
  const slices = new TimeSlices(clock.time);
  const ran: number[] = [];
  const all = Array.from({ length: 40 }, (_, n) => n);
  for (const n of all) slices.run(() => ran.push(n));
  for (let n = 0; n < 5; n++) {
    const passed = clock.pass();
    await new Promise(process.nextTick);
    await passed;
  }
  expect(ran).toEqual(all);
});

test("a task longer than a slice is alone in it, and later ones queue behind those that wait", async () => {
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
  await settled();
  expect(ran).toEqual(["a"]);
  await clock.pass();
  expect(ran).toEqual(["a", "b"]);
  add("d", 1);
  await clock.pass();
  expect(ran).toEqual(["a", "b", "c", "d"]);
});

test("a task that starts others has them run after those that wait", async () => {
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
  await eachPass(clock, () => ran.length, 4);
  expect(ran).toEqual(["a", "b", "c", "d"]);
});

test("after a long slice, the next one begins later by a twentieth of it; a short one has no gap", async () => {
  for (const [costMs, gapMs] of [
    [10, 0],
    [300, 15],
  ] as const) {
    clock = standingClock();
    const slices = new TimeSlices(clock.time);
    const beganMs = clock.time.nowMs();
    let nextMs = 0;
    slices.run(() => clock.spend(costMs));
    slices.run(() => (nextMs = clock.time.nowMs()));
    await settled();
    await clock.pass();
    expect(nextMs - beganMs).toBe(costMs + gapMs);
  }
});

test("of one agent's waiting work, a piece begins at a time: the others come first", async () => {
  const slices = new TimeSlices(clock.time);
  const ran: string[] = [];
  const begin = async (name: string, n: number): Promise<void> => {
    await slices.turn(agentId("Some", name));
    clock.spend(20);
    ran.push(`${name}${n}`);
  };
  // Uses up the slice.
  slices.run(() => clock.spend(20));
  for (const n of [1, 2, 3]) void begin("slow", n);
  for (const n of [1, 2]) void begin("quick", n);
  await eachPass(clock, () => ran.length, 5);
  expect(ran).toEqual(["slow1", "quick1", "slow2", "quick2", "slow3"]);
});

test("a process has one queue per clock for agents that wake, and one for turns", () => {
  const { time } = standingClock();
  expect(slicesOf(time)).toBe(slicesOf(time));
  expect(slicesOf(standingClock().time)).not.toBe(slicesOf(time));
  expect(turnSlicesOf(time)).not.toBe(slicesOf(time));
});

test("one long task pauses whenever a slice is used up, whatever the length of its steps", async () => {
  for (const [stepMs, stepsASlice] of [
    [1, 10],
    [4, 3],
    [50, 1],
  ] as const) {
    clock = standingClock();
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
    const upTo = await eachPass(clock, () => steps, 30);
    await done;
    expect(upTo).toEqual(Array.from(upTo, (_, n) => stepsASlice * (n + 1)));
  }
});

test("several long tasks share a slice, step by step", async () => {
  const slices = new TimeSlices(clock.time);
  const ran: string[] = [];
  const work = async (name: string): Promise<void> => {
    for (let n = 0; n < 4; n++) {
      await slices.yield();
      clock.spend(3);
      ran.push(name);
    }
  };
  void work("a");
  void work("b");
  // The fifth step was allowed before the fourth had run.
  expect(await eachPass(clock, () => ran.length, 8)).toEqual([5, 8]);
  expect(ran.join("")).toBe("abababab");
});

test("more begin at once while passes stay short, and eight again after a long one", async () => {
  const slices = new TimeSlices(clock.time, 100);
  /** How many of a burst begin at once. Each costs `ms`, those that wait too. */
  const burst = async (ms: number): Promise<number> => {
    const turns = Array.from({ length: 50 }, () => slices.turn());
    await Promise.all([Promise.all(turns), settled()]);
    clock.spend(ms * turns.length);
    await clock.pass();
    return turns.filter((turn) => turn === undefined).length;
  };
  expect([await burst(0.2), await burst(0.2), await burst(0.2), await burst(0.2)]).toEqual([
    8, 16, 32, 32,
  ]);
  // Known once it is over.
  expect([await burst(20), await burst(0.2)]).toEqual([32, 8]);
  await burst(0.2);
  // Nearly nothing arrives for two passes.
  for (let pass = 0; pass < 2; pass += 1) {
    expect(slices.turn()).toBeUndefined();
    await clock.pass();
  }
  expect(await burst(0.2)).toBe(8);
});

test("work that throws in a later slice does not keep back what waits behind it", async () => {
  const slices = new TimeSlices(clock.time);
  const unhandled: unknown[] = [];
  const note = (error: unknown): void => void unhandled.push(error);
  const others = process.listeners("unhandledRejection");
  process.removeAllListeners("unhandledRejection").on("unhandledRejection", note);
  try {
    let ran = 0;
    slices.run(() => clock.spend(10));
    slices.run(() => {
      throw new Error("its own");
    });
    slices.run(() => void ran++);
    for (let n = 0; n < 3; n++) await clock.pass();
    expect(ran).toBe(1);
    expect(unhandled).toEqual([new Error("its own")]);
  } finally {
    process.off("unhandledRejection", note);
    for (const other of others) process.on("unhandledRejection", other);
  }
});
