/** The waits of a workflow's steps, on a record that counts how often an event is looked for. */
import { expect, test } from "vitest";
import { newStep } from "../../core/workflow/stepFacts.ts";
import { StepWaits, type Arrival, type WaitsHost } from "../../core/workflow/StepWaits.ts";

const WAITING = 300;
const NEVER_MS = 1e15;

function waits() {
  const looked: string[] = [];
  const held = { paused: false };
  const runtime = {
    time: { nowMs: () => 0 },
    inBackground: (f: () => unknown) => f(),
    asTurn: async (_: unknown, f: () => Promise<void>) => f(),
  };
  const host = {
    runtime,
    table: { put: () => {} },
    isPaused: () => held.paused,
    wakes: { add: () => {}, has: () => true },
    events: { take: ({ key }: { key: string }) => void looked.push(key) },
  } as unknown as WaitsHost;
  const made = new StepWaits(host, {
    isAbandoned: () => false,
    look: () => {},
    settle: async () => {},
    unrecorded: () => {},
  });
  for (let n = 0; n < WAITING; n++) {
    const record = { ...newStep(`1:step ${n}`, "waitForEvent"), dueMs: NEVER_MS };
    made.add({ ...record, eventType: `type ${n % 100}` }, true, () => {});
  }
  const after = (act: () => void): string[] => {
    looked.length = 0;
    act();
    return [...looked];
  };
  const arrives = (arrival: Arrival) => after(() => made.check(arrival));
  return { held, arrives, unparked: () => after(() => made.unpark()) };
}

test("an arrival is looked up only for the steps that it may concern", () => {
  const { arrives } = waits();
  expect(arrives({ eventType: "type 7" })).toEqual(["1:step 7", "1:step 107", "1:step 207"]);
  expect(arrives({ key: "1:step 8" })).toEqual(["1:step 8"]);
  expect(arrives({ key: "1:none" })).toEqual([]);
});

test("all steps look for what arrived in a pause, once, when the instance is resumed", () => {
  const { held, arrives, unparked } = waits();
  expect(unparked()).toEqual([]);
  held.paused = true;
  expect(arrives({ eventType: "type 7" })).toEqual([]);
  held.paused = false;
  expect(unparked()).toHaveLength(WAITING);
  expect(unparked()).toEqual([]);
});
