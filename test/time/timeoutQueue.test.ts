/** Timeouts that share one timer: each ends after its own time, cancelled ones never. */
import { expect, test } from "vitest";
import { TimeoutQueue } from "../../core/time/TimeoutQueue.ts";
import { VirtualTime } from "../../services/memory/VirtualTime.ts";

const MS = 50;

test("each timeout ends after its own time, in the order in which they began", async () => {
  const time = new VirtualTime();
  const timeouts = new TimeoutQueue(time);
  const ended: Array<readonly [string, number]> = [];
  const begin = (name: string): (() => void) =>
    timeouts.after(MS, () => ended.push([name, time.monotonicMs()]));
  begin("a");
  await time.advance(10);
  const cancel = begin("b");
  await time.advance(20);
  begin("c");
  begin("d");
  // A timeout that begins when another ends has all of its time.
  timeouts.after(MS, () => begin("e"));
  cancel();
  await time.advance(MS);
  // It takes no timer of its own.
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

test("a thousand timeouts use one timer, and none when all are cancelled in time", async () => {
  const time = new VirtualTime();
  const timeouts = new TimeoutQueue(time);
  let ran = 0;
  const cancels = Array.from({ length: 1_000 }, () => timeouts.after(MS, () => ran++));
  expect(time.pending).toBe(1);
  for (const cancel of cancels) cancel();
  await time.advance(MS);
  expect({ ran, pending: time.pending }).toEqual({ ran: 0, pending: 0 });
  timeouts.after(MS, () => ran++);
  await time.advance(MS);
  expect(ran).toBe(1);
});

test("a shorter timeout that begins later ends first", async () => {
  const time = new VirtualTime();
  const timeouts = new TimeoutQueue(time);
  const ended: Array<readonly [string, number]> = [];
  const end = (name: string) => () => void ended.push([name, time.monotonicMs()]);
  timeouts.after(1_000, end("long"));
  await time.advance(10);
  timeouts.after(100, () => {
    end("short")();
    timeouts.after(20, end("next"));
  });
  expect(time.pending).toBe(1);
  await time.advance(2_000);
  expect(ended).toEqual([
    ["short", 110],
    ["next", 130],
    ["long", 1_000],
  ]);
});

test("with slack, timeouts end late by at most that much, together, and never early", async () => {
  const time = new VirtualTime();
  const slackMs = 20;
  const timeouts = new TimeoutQueue(time, slackMs);
  const ended: number[] = [];
  for (let begun = 0; begun < 100; begun++) {
    const dueMs = time.monotonicMs() + MS;
    timeouts.after(MS, () => {
      const lateMs = time.monotonicMs() - dueMs;
      expect(lateMs).toBeGreaterThanOrEqual(0);
      expect(lateMs).toBeLessThanOrEqual(slackMs);
      ended.push(time.monotonicMs());
    });
    await time.advance(1);
  }
  await time.advance(MS + slackMs);
  expect(ended).toHaveLength(100);
  expect(new Set(ended).size).toBeLessThan(10);
});

test("a closed queue has no timer", async () => {
  const time = new VirtualTime();
  const timeouts = new TimeoutQueue(time);
  let ran = 0;
  timeouts.after(MS, () => timeouts.close());
  timeouts.after(MS * 2, () => ran++);
  await time.advance(MS);
  timeouts.after(MS, () => ran++);
  expect(time.pending).toBe(0);
  await time.advance(MS * 4);
  expect(ran).toBe(0);
});

test("one that throws when it ends does not keep the others from ending", () => {
  let nowMs = 0;
  let armed: (() => void) | undefined;
  const fire = (): void => {
    const f = armed;
    armed = undefined;
    f?.();
  };
  const time = {
    monotonicMs: () => nowMs,
    after: (_ms: number, f: () => void) => {
      armed = f;
      return () => undefined;
    },
  };
  const timeouts = new TimeoutQueue(time);
  let ran = 0;
  timeouts.after(MS, () => {
    throw new Error("its own");
  });
  timeouts.after(MS, () => ran++);
  nowMs = MS;
  expect(fire).toThrow("its own");
  fire();
  expect(ran).toBe(1);
  timeouts.after(MS, () => ran++);
  nowMs = 2 * MS;
  fire();
  expect(ran).toBe(2);
});
