/** Which inputs count as done, and for how long: also where events have times of a wrong clock. */
import { describe, expect, test } from "vitest";
import { DoneSet } from "../../core/journal/DoneSet.ts";

const DAY_MS = 24 * 3_600_000;
const NOW_MS = Date.UTC(2025, 0, 1);

/** As the events of a journal: each adds a key at its time, and trims. */
function doneAt(times: ReadonlyArray<number>): DoneSet {
  const set = new DoneSet();
  times.forEach((timeMs, n) => {
    set.add(`webhook:${n}`, timeMs, n + 1);
    set.trim(timeMs);
  });
  return set;
}

const keysOf = (set: DoneSet): number[] =>
  set.toArray().map(([key]) => Number(key.slice("webhook:".length)));

/** So many events, a minute apart. */
const steady = (count: number, fromMs: number): number[] =>
  Array.from({ length: count }, (_, n) => fromMs + n * 60_000);

describe("the set of done inputs", () => {
  test("forgets what is older than a week, in an agent that has inputs all the time", () => {
    const set = doneAt(Array.from({ length: 300 }, (_, n) => NOW_MS + n * 3_600_000));
    expect(keysOf(set)[0]).toBe(299 - 7 * 24);
  });

  test("shrinks to the newest keys after a busy time", () => {
    const set = doneAt([...steady(1_000, NOW_MS), ...steady(300, NOW_MS + 30 * DAY_MS)]);
    expect(keysOf(set)[0]).toBe(1_000);
  });

  test("keeps what was done just before a clock was set forwards", () => {
    const set = doneAt([...steady(5, NOW_MS), NOW_MS + 3_650 * DAY_MS]);
    expect(keysOf(set)).toEqual([0, 1, 2, 3, 4, 5]);
  });

  test("keeps what was done by a clock that was years slow", () => {
    const set = doneAt([0, 1_000, ...steady(20, NOW_MS)]);
    expect(set.seqOf("webhook:0")).toBe(1);
  });

  test("keeps nearly everything of a busy agent when one event has the time of a wrong clock", () => {
    const times = steady(2_000, NOW_MS);
    times[1_000] = NOW_MS + 3_650 * DAY_MS;
    const set = doneAt(times);
    expect(set.size).toBeGreaterThan(1_980);
    expect(set.seqOf("webhook:999")).toBe(1_000);
  });
});
