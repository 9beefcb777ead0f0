import fc from "../kit/property.ts";
import { describe, expect, it } from "vitest";
import { dueOf } from "../../core/schedule/dueTimes.ts";
import { keyOf, planAlarms, readKey } from "../../core/schedule/planAlarms.ts";
import type { ScheduleRow } from "../../core/schedule/ScheduleTable.ts";

const NOW_MS = 1_000;

const row = (id: string, dueMs: number | null): ScheduleRow => ({
  id,
  callback: "run",
  payload: null,
  type: "scheduled",
  time: dueMs === null ? null : Math.ceil(dueMs / 1000),
  delayInSeconds: null,
  cron: null,
  intervalSeconds: null,
  running: false,
  retryOptions: null,
  dueMs,
  timezone: null,
  misfire: "latest",
  startedMs: null,
});
const timer = (id: string, dueMs: number): [string, number] => [keyOf(id, dueMs), dueMs];
const plan = (facts: Partial<Parameters<typeof planAlarms>[0]>) =>
  planAlarms({ put: [], gone: [], rows: facts.put ?? [], pending: [], nowMs: NOW_MS, ...facts });

describe("planAlarms", () => {
  it("arms a timer only for the first due of ten rows", () => {
    const put = Array.from({ length: 10 }, (_, n) => row(`r${n}`, 5_000 - n));
    expect(plan({ put })).toEqual({ arm: put[9], disarm: [] });
  });

  it("arms none for a row that is due after a pending timer", () => {
    const put = [row("late", 9_000)];
    expect(plan({ put, pending: [timer("first", 2_000)] }).arm).toBeUndefined();
  });

  it("treats a fired timer as covering nothing", () => {
    const put = [row("late", 9_000)];
    expect(plan({ put, pending: [timer("first", NOW_MS)] }).arm).toBe(put[0]);
  });

  it("arms the next row when the covering one is cancelled", () => {
    const [first, second, third] = [row("a", 2_000), row("b", 3_000), row("c", 4_000)];
    const facts = { gone: [first], rows: [third, second], pending: [timer("a", 2_000)] };
    expect(plan(facts)).toEqual({ arm: second, disarm: [first] });
  });

  it("does not cancel a timer that is already due", () => {
    const due = row("a", NOW_MS);
    expect(plan({ gone: [due], pending: [timer("a", NOW_MS)] }).disarm).toEqual([]);
  });

  it("skips rows that can't be armed", () => {
    const put = [row("none", null), row("beyond", Date.UTC(20_000, 0))];
    expect(plan({ put }).arm).toBeUndefined();
  });

  it("parses a key, whatever the id contains", () => {
    expect(readKey(keyOf("a:b:7", 12))).toEqual(["a:b:7", 12]);
  });

  it("leaves no future row uncovered", () => {
    const ids = fc.constantFrom("a", "b", "c", "d", "e");
    const times = fc.dictionary(ids, fc.integer({ min: NOW_MS - 5, max: NOW_MS + 20 }));
    fc.assert(
      fc.property(times, times, (before, after) => {
        const rowsOf = (all: Record<string, number>) =>
          Object.entries(all).map(([id, dueMs]) => row(id, dueMs));
        // Covered before the change, by the timer of what is due first.
        const old = rowsOf(before).toSorted((one, other) => dueOf(one)! - dueOf(other)!);
        const first = old.find((each) => dueOf(each)! > NOW_MS);
        const pending = new Map(first === undefined ? [] : [timer(first.id, dueOf(first)!)]);
        const put = rowsOf(after).filter(({ id, dueMs }) => before[id] !== dueMs);
        const gone = old.filter(({ id, dueMs }) => after[id] !== dueMs);
        const { arm, disarm } = planAlarms({
          put,
          gone,
          rows: rowsOf(after),
          pending,
          nowMs: NOW_MS,
        });
        for (const each of disarm) pending.delete(keyOf(each.id, dueOf(each)!));
        if (arm !== undefined) pending.set(...timer(arm.id, dueOf(arm)!));
        for (const dueMs of Object.values(after))
          if (dueMs > NOW_MS)
            expect([...pending.values()].some((atMs) => atMs <= dueMs)).toBe(true);
      }),
      { numRuns: 2_000 },
    );
  });
});
