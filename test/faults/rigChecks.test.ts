/** The fault rig's checkers: a right history passes, and each planted violation is found. */
import { describe, expect, test } from "vitest";
import { agentId } from "../../schemas/Address.ts";
import type { JournalHead, TurnRecord } from "../../schemas/JournalEvent.ts";
import type { History } from "../kit/checkers.ts";
import { Random } from "../sim/rig/Random.ts";
import { Bites } from "./rig/Bites.ts";
import { CHECKS, type LedgerAtRest, type RigHistory } from "./rig/checks.ts";
import type { Note } from "./rig/Clients.ts";
import { damage } from "./rig/damageFaults.ts";
import type { SentOrder } from "./rig/Providers.ts";
import { ATTEMPTS_MAX, type Order, type Run } from "./rig/rigModule.ts";
import { scheduleOf } from "./rig/runRig.ts";

const READ_MS = 1_000_000;

const order = (id: string, op: Order["do"], ...statuses: number[]): SentOrder => ({
  order: { id, agent: "one", do: op, ms: 1, fails: 0 },
  statuses,
  forged: false,
});

function event(name: string, seq: number, turns: ReadonlyArray<TurnRecord>): History["events"][number] {
  const head: JournalHead = {
    id: `e${seq}`, agent: [name === "one" ? "Ledger" : "Board", name], kind: "turns",
    host: "a", epoch: 1, time: seq, turns,
  };
  return { seq, head };
} // prettier-ignore

const turn = (kind: "webhook" | "queue" | "schedule", key: string, count: number): TurnRecord => ({
  cause: { kind, id: key },
  state: { set: { count } },
  done: [key],
});
const written = (note: string, n: number): TurnRecord => ({
  cause: { kind: "message" },
  state: { set: { note, n } },
});
const run = (key: string, change: Partial<Run> = {}): Run => ({
  agent: "one", key, attempt: 1, pid: 1, atMs: 1, ...change,
}); // prettier-ignore
const note = (text: string, change: Partial<Note> = {}): Note => ({
  board: "north", note: text, taken: true, forbidden: false, byHttp: true, ...change,
}); // prettier-ignore

const half: TurnRecord = {
  cause: { kind: "webhook", id: "github:h" },
  state: { set: { count: 10 } },
  begun: true,
};

const ledger: LedgerAtRest = {
  history: {
    id: agentId("Ledger", "one"),
    events: [
      event("one", 1, [turn("webhook", "github:m", 1)]),
      event("one", 2, [turn("webhook", "github:q1", 2), turn("webhook", "github:q2", 3)]),
      event("one", 3, [turn("queue", "queue:1", 4)]),
      event("one", 4, [turn("queue", "queue:2", 5), turn("webhook", "github:s", 6)]),
      event("one", 5, [turn("schedule", "schedule:1:9", 7)]),
      event("one", 6, [{ cause: { kind: "webhook", id: "github:p" }, dead: true, done: ["p"] }]),
      event("one", 7, [turn("webhook", "github:w", 8), turn("webhook", "github:c", 9)]),
    ],
  },
  keys: [
    "github:m", "github:q1", "github:q2", "job:q1", "job:q2", "github:s", "tick:s", "github:w",
    "cancelled:x", "github:c",
  ],
  state: { count: 9 },
  dueMs: [READ_MS + 1],
}; // prettier-ignore

const board: History = {
  id: agentId("Board", "north"),
  events: [event("north", 1, [written("n1", 1)]), event("north", 2, [written("n2", 2)])],
};

const RIGHT: RigHistory = {
  orders: [
    order("m", "mark", 503, 200), order("q1", "queue", 200), order("q2", "queue", 202), order("s", "schedule", 200),
    order("p", "poison", 500), order("w", "send", 200), order("c", "cancel", 200), order("lost", "mark", 0, 503),
    { ...order("forged", "mark", 401), forged: true },
  ],
  ledgers: [ledger],
  boards: [board],
  pictures: [
    {
      history: board,
      pictures: [
        { way: "a", state: 1, image: Uint8Array.of(1) },
        { way: "b", state: 1, image: Uint8Array.of(1) },
      ],
    },
  ],
  notes: [note("n1"), note("n2", { byHttp: false }), note("unread", { taken: false })],
  clients: [
    {
      board: "north",
      seen: [[{ seq: 1, state: { note: "n1", n: 1 } }, { seq: 2, state: { note: "n2", n: 2 } }]],
    },
  ],
  runs: [run("github:m"), run("github:p"), run("tick:s", { atMs: 9, dueMs: 9 })],
  received: [{ key: "k", agent: "one", id: "w" }, { key: "k", agent: "one", id: "w" }],
  hostTroubles: 1,
  readMs: READ_MS,
}; // prettier-ignore

const withLedger = (change: Partial<LedgerAtRest>): RigHistory => ({
  ...RIGHT,
  ledgers: [{ ...ledger, ...change }],
});
const withEvents = (...more: History["events"]): RigHistory =>
  withLedger({ history: { ...ledger.history, events: [...ledger.history.events, ...more] } });
const keysBut = (gone: string, ...more: string[]): RigHistory =>
  withLedger({ keys: [...ledger.keys.filter((key) => key !== gone), ...more] });

test("a correct history passes every checker", () => {
  for (const check of Object.values(CHECKS)) expect(check(RIGHT)).toEqual([]);
});

/** The checker, the history, and what it says. */
const PLANTED: ReadonlyArray<readonly [check: keyof typeof CHECKS, history: RigHistory, says: RegExp]> = [
  ["I1, I10", { ...RIGHT, orders: [...RIGHT.orders, order("z", "mark", 202)] }, /z was answered 202 and never done/],
  ["I1, I10", withEvents(event("one", 8, [turn("webhook", "github:m", 10)])), /github:m was done 2 times/],
  ["I1, I10", withEvents(event("one", 8, [turn("webhook", "github:forged", 10)])), /forged was done and never sent/],
  ["I1, I10", { ...RIGHT, orders: [...RIGHT.orders, order("z", "poison", 500)] }, /poison z .* is not dead/],
  ["I1, I10", { ...RIGHT, orders: [...RIGHT.orders, { ...order("z", "mark", 200), forged: true }] }, /forged z was answered 200/],
  ["I1, I5, I6, queue", keysBut("", "github:m"), /github:m left 2 marks/],
  ["I1, I5, I6, queue", keysBut("github:m"), /github:m is done and left no mark/],
  ["I1, I5, I6, queue", keysBut("", "github:z"), /github:z left a mark and is not done/],
  ["I1, I5, I6, queue", withLedger({ state: { count: 8 } }), /counts 8, and has 9/],
  ["I1, I5, I6, queue", keysBut("job:q1", "job:q1"), /the queue was job:q1,job:q2, and ran job:q2,job:q1/],
  ["I1, I5, I6, queue", keysBut("job:q2"), /and ran job:q1$/],
  ["I1, I5, I6, queue", withLedger({ keys: ledger.keys.filter((key) => key !== "tick:s"), dueMs: [] }), /schedule of s is gone/],
  ["I1, I5, I6, queue", withLedger({ dueMs: [READ_MS - 1] }), /1 schedules are due and have not run/],
  ["I1, I5, I6, queue", keysBut("", "tick:x"), /tick:x ran after it was cancelled/],
  ["I2, I3", withEvents({ seq: 7, head: event("one", 7, []).head }), /comes after/],
  ["I2, I3", withEvents({ seq: 8, head: { ...event("one", 8, []).head, host: "b" } }), /both wrote in epoch 1/],
  ["I2, I3", { ...RIGHT, pictures: [{ history: board, pictures: [{ way: "a", state: 1, image: Uint8Array.of(1) }, { way: "b", state: 1, image: Uint8Array.of(2) }] }] }, /differ in the database/],
  ["I4", withEvents(event("one", 8, [{ cause: { kind: "webhook" }, done: ["github:z"] }])), /the state counts 9, done are 10/],
  ["I4", withEvents(event("one", 8, [{ cause: { kind: "queue" }, state: { set: { count: 10 } } }])), /the state counts 10, done are 9/],
  ["I4", withEvents(event("one", 8, [half])), /github:h is stored in part and is not done/],
  ["I5", { ...RIGHT, runs: [run("tick:s", { atMs: 8, dueMs: 9 })] }, /tick:s ran 1 ms early/],
  ["I7", { ...RIGHT, runs: Array.from({ length: ATTEMPTS_MAX + 2 }, () => run("github:p")) }, /poison p ran 7 times/],
  ["I9", { ...RIGHT, clients: [{ board: "north", seen: [[{ seq: 2, state: { note: "n2", n: 2 } }, { seq: 1, state: { note: "n1", n: 1 } }]] }] }, /was told 1 after 2/],
  ["I9", { ...RIGHT, clients: [{ board: "north", seen: [[{ seq: 1, state: { note: "n2", n: 2 } }]] }] }, /which was never stored/],
  ["I1, I10 of calls", { ...RIGHT, notes: [note("n3")] }, /n3 was taken and is not stored/],
  ["I1, I10 of calls", { ...RIGHT, notes: [note("n1", { forbidden: true, taken: false })] }, /n1 was written 1 times/],
  ["I1, I10 of calls", { ...RIGHT, boards: [{ ...board, events: [...board.events, event("north", 3, [written("n1", 3)])] }] }, /n1 was written 2 times/],
  ["I13", { ...RIGHT, received: [...RIGHT.received, { key: "k2", agent: "one", id: "w" }] }, /w was sent under k and k2/],
  ["I13", { ...RIGHT, received: [...RIGHT.received, { key: "k3", agent: "one", id: "z" }] }, /z was sent, and its turn is not stored/],
  ["I13", { ...RIGHT, received: [] }, /w is stored and was never sent/],
]; // prettier-ignore

test("a turn may be stored in two parts if the first part says so", () => {
  const { done } = turn("webhook", "github:h", 10);
  const rest = event("one", 9, [{ cause: half.cause, done }] as ReadonlyArray<TurnRecord>);
  const { history } = ledger;
  const whole = { ...history, events: [...history.events, event("one", 8, [half]), rest] };
  expect(CHECKS["I4"]!({ ...RIGHT, ledgers: [{ ...ledger, history: whole }] })).toEqual([]);
});

describe("a planted violation is found:", () => {
  test.each(PLANTED)("%s #%#", (check, history, says) => {
    expect(CHECKS[check]!(history).join("\n")).toMatch(says);
  });
  test("every checker has a planted violation", () => {
    expect(Object.keys(CHECKS).filter((name) => !PLANTED.some(([check]) => check === name))).toEqual([]); // prettier-ignore
  });
});

test("a fault that was injected and left no trace is reported", () => {
  const bites = new Bites();
  for (const fault of ["sharp", "blunt", "silent"]) bites.begin(fault);
  bites.add("sharp", "bites", 2);
  bites.add("blunt", "bites", 0);
  expect(bites.toothless).toEqual(["blunt", "silent"]);
});

test("a seed determines the schedule, which contains each fault", () => {
  const names = ["a", "b", "c", "d", "e", "f"];
  expect(scheduleOf(7, names)).toEqual(scheduleOf(7, names));
  expect(scheduleOf(7, names).toSorted()).toEqual(names);
  expect(scheduleOf(7, names)).not.toEqual(scheduleOf(8, names));
});

test("damaging bytes always changes them", () => {
  const bytes = Uint8Array.from({ length: 50 }, (_, n) => n);
  const random = new Random(1);
  for (let n = 0; n < 500; n++) expect(damage(bytes, random)).not.toEqual(bytes);
});
