/** What the back-pressure of a full memory keeps of slots that have left. */
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { expect, test } from "vitest";
import { roomMaker } from "../../services/host/makeRoom.ts";
import { pollUntil } from "../kit/poll.ts";

setFlagsFromString("--expose-gc");
const collect = runInNewContext("gc") as () => void;

class Slot {
  hibernated = 0;
  hibernate(): boolean {
    this.hibernated++;
    return true;
  }
}

/** A thousand slots that are added and removed. */
function comeAndGo(slots: Map<string, Slot>): ReadonlyArray<WeakRef<Slot>> {
  const left: Array<WeakRef<Slot>> = [];
  for (let n = 0; n < 1_000; n++) {
    const slot = new Slot();
    slots.set(`${n}`, slot);
    left.push(new WeakRef(slot));
  }
  for (let n = 0; n < 1_000; n++) slots.delete(`${n}`);
  return left;
}

const parts = (memoryInUse: () => number) =>
  ({ time: { monotonicMs: () => 0 }, memoryInUse }) as unknown as Parameters<typeof roomMaker>[0];

test.each([
  ["never full", [0]],
  ["full for a moment", [1, 0]],
])("nothing, where memory is %s", async (_, uses) => {
  const slots = new Map<string, Slot>([["first", new Slot()]]);
  const makeRoom = roomMaker(parts(() => uses.shift() ?? 0), slots, () => true); // prettier-ignore
  void makeRoom(false);
  void makeRoom(false);
  const left = comeAndGo(slots);
  await pollUntil("nearly all are collected", () => {
    collect();
    // The stack may still have the last one.
    return left.filter((slot) => slot.deref() !== undefined).length < 10;
  });
  expect(slots.size).toBe(1);
});

test("while memory is full, the slots are tried in turn", () => {
  const slots = new Map(Array.from({ length: 6 }, (_, n) => [`${n}`, new Slot()] as const));
  const makeRoom = roomMaker(
    parts(() => 1),
    slots,
    () => true,
  );
  for (let n = 0; n < 3; n++) void makeRoom(false);
  expect([...slots.values()].map(({ hibernated }) => hibernated)).toEqual([1, 1, 1, 1, 1, 1]);
});
