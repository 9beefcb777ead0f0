/** The wakes of a workflow's steps, on a scheduler that counts how often it is looked through. */
import { expect, test } from "vitest";
import type { ScheduleRow, SchedulesOfAgent } from "../../core/schedule/ScheduleTable.ts";
import { Wakes } from "../../core/workflow/Wakes.ts";

const WAITING = 300;

test("one pass handles all wakes, however many steps wait", () => {
  const rows = new Map<string, ScheduleRow>();
  let looks = 0;
  const scheduler: SchedulesOfAgent = {
    add: ({ settings }) => {
      const id = `wake-${rows.size}`;
      rows.set(id, { id, payload: JSON.stringify(settings.payload) } as ScheduleRow);
      return rows.get(id)!;
    },
    cancel: (id) => rows.delete(id),
    table: {
      get: (id) => rows.get(id),
      all: () => {
        looks++;
        return [...rows.values()];
      },
    },
  };
  const steps = Array.from({ length: WAITING }, (_, n) => `1:step "${n}"`);
  const before = new Wakes({ scheduler }, {});
  for (const step of steps) before.add(step, 1000);
  // The agent was out of memory.
  const wakes = new Wakes({ scheduler }, {});
  for (const step of steps) expect(wakes.has(step)).toBe(true);
  expect(looks).toBe(1);
  wakes.add("1:late", 1000);
  expect([wakes.has("1:late"), wakes.has("1:never")]).toEqual([true, false]);
  // Spent, or rolled back.
  rows.delete("wake-7");
  expect([wakes.has(steps[7]!), wakes.has(steps[8]!)]).toEqual([false, true]);
  wakes.cancel(steps[8]);
  expect([rows.has("wake-8"), wakes.has(steps[8]!)]).toEqual([false, false]);
  expect(looks).toBe(1);
  wakes.cancel();
  expect(rows.size).toBe(0);
});
