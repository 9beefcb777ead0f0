/** The checkers themselves: a history that is right passes, and each planted violation is found. */
import { describe, expect, test } from "vitest";
import { agentId } from "../../schemas/Address.ts";
import type { JournalHead, TurnRecord } from "../../schemas/JournalEvent.ts";
import {
  checkApplied, checkAtomic, checkEpochs, checkExactlyOnce, checkOrder, checkSame,
  type History, type SentInput,
} from "../kit/checkers.ts"; // prettier-ignore

const ID = agentId("Ledger", "one");

function event(seq: number, change: Partial<JournalHead> = {}): History["events"][number] {
  const head: JournalHead = {
    id: `e${seq}`,
    agent: [ID.class, ID.name],
    kind: "turns",
    host: "a",
    epoch: 1,
    time: seq,
    turns: [],
    ...change,
  };
  return { seq, head };
}
const turn = (count: number, ...done: string[]): TurnRecord => ({
  cause: { kind: "webhook" },
  state: { set: { count } },
  done,
});
const history = (...events: Array<History["events"][number]>): History => ({ id: ID, events });

const right = history(
  event(1, { turns: [turn(1, "k1")] }),
  event(3, { kind: "claimed", host: "b", epoch: 2 }),
  event(4, { host: "b", epoch: 2, turns: [turn(2, "k2"), turn(3, "k3")] }),
);
const sent = (key: string, ...statuses: number[]): SentInput => ({ agent: "one", key, statuses });

describe("a correct history", () => {
  test("passes every checker", () => {
    const inputs = [sent("k1", 200), sent("k2", 202, 200), sent("k3", 503), sent("k4", 503, 0)];
    expect([
      checkExactlyOnce(inputs, [right]),
      checkApplied(right, ["k1", "k2", "k3"]),
      checkOrder(right),
      checkEpochs(right),
      checkAtomic(right),
      checkSame(ID, [picture("a"), picture("b")]),
    ]).toEqual([[], [], [], [], [], []]);
  });
});

describe("a planted violation is found:", () => {
  test("an accepted input that was never processed", () => {
    const inputs = ["k1", "k2", "k3", "k4"].map((key) => sent(key, 202));
    expect(checkExactlyOnce(inputs, [right])).toEqual(["one k4 was answered 202 and never done"]);
  });
  test("an input that was processed twice", () => {
    const twice = history(...right.events, event(5, { turns: [turn(4, "k1")] }));
    const inputs = ["k1", "k2", "k3"].map((key) => sent(key, 200));
    expect(checkExactlyOnce(inputs, [twice])).toEqual(["one k1 was done 2 times"]);
  });
  test("an input without a sender", () => {
    const inputs = ["k1", "k3"].map((key) => sent(key, 200));
    expect(checkExactlyOnce(inputs, [right])).toEqual(["one k2 was done and never sent"]);
  });
  test("an input whose mark is duplicated, missing, or present without processing", () => {
    expect(checkApplied(right, ["k1", "k1", "k2", "x"])).toEqual([
      "Ledger/one: k1 is applied 2 times",
      "Ledger/one: k3 is applied 0 times",
      "Ledger/one: x is applied and not done",
    ]);
  });
  test("an event before its predecessor", () => {
    expect(checkOrder(history(event(3), event(2)))).toEqual([
      "Ledger/one: event 2 comes after event 3",
    ]);
  });
  test("a state change that does not apply to the previous state", () => {
    const splice = event(2, {
      turns: [{ cause: { kind: "request" }, state: { splice: [900, 900, "x"] } }],
    });
    expect(checkOrder(history(event(1), splice))).toHaveLength(1);
  });
  test("an epoch that decreases", () => {
    expect(checkEpochs(history(event(1, { epoch: 2 }), event(2, { epoch: 1 })))).toHaveLength(1);
  });
  test("two hosts that write in the same epoch", () => {
    expect(checkEpochs(history(event(1), event(2, { host: "b" })))).toEqual([
      "Ledger/one event 2: b and a both wrote in epoch 1",
    ]);
  });
  test("half a turn in an event: a state without its input, and an input without its state", () => {
    expect(checkAtomic(history(event(1, { turns: [turn(1)] })))).toHaveLength(1);
    expect(checkAtomic(history(event(1, { turns: [turn(0, "k1")] })))).toHaveLength(1);
  });
  test("two rebuilds that differ in a byte or in the state", () => {
    expect(checkSame(ID, [picture("a"), picture("b", [1, 2, 4])])).toHaveLength(1);
    expect(checkSame(ID, [picture("a"), picture("b", [1, 2, 3], { count: 2 })])).toHaveLength(1);
  });
});

function picture(way: string, bytes: number[] = [1, 2, 3], state: unknown = { count: 1 }) {
  return { way, state, image: Uint8Array.from(bytes) };
}
