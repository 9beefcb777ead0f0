/** Timers that share one: each to its own millisecond, cancelled ones never. */
import { expect, test } from "vitest";
import { EqualTimers } from "../../core/time/EqualTimers.ts";
import { VirtualTime } from "../../services/memory/VirtualTime.ts";

const MS = 50;

test("each ends after its own time, in the order in which they began", async () => {
  const time = new VirtualTime();
  const timers = new EqualTimers(time, MS);
  const ended: Array<readonly [string, number]> = [];
  const begin = (name: string): (() => void) =>
    timers.after(() => ended.push([name, time.monotonicMs()]));
  begin("a");
  await time.advance(10);
  const cancel = begin("b");
  await time.advance(20);
  begin("c");
  begin("d");
  // One that begins when another ends has all of its time.
  timers.after(() => begin("e"));
  cancel();
  await time.advance(MS);
  // Nor does it take a timer of its own.
  expect(time.pending).toBe(1);
  await time.advance(MS * 2);
  expect(ended).toEqual([
    ["a", 50],
    ["c", 80],
    ["d", 80],
    ["e", 130],
  ]);
  expect(time.pending).toBe(0);
});

test("a thousand that wait take one timer, and none when all are cancelled in time", async () => {
  const time = new VirtualTime();
  const timers = new EqualTimers(time, MS);
  let ran = 0;
  const cancels = Array.from({ length: 1_000 }, () => timers.after(() => ran++));
  expect(time.pending).toBe(1);
  for (const cancel of cancels) cancel();
  await time.advance(MS);
  expect({ ran, pending: time.pending }).toEqual({ ran: 0, pending: 0 });
  timers.after(() => ran++);
  await time.advance(MS);
  expect(ran).toBe(1);
});
