/**
 * Bugs that a run can be given, one for each promise that matters: what the checkers are worth is what they
 * catch of these. Each is planted from outside, at a port or in a prototype, and taken out again.
 */
import { Committer } from "../../core/turn/Committer.ts";
import { DoneSet } from "../../core/turn/DoneSet.ts";
import { Alarms } from "../../core/turn/Alarms.ts";
import { AgentSockets } from "../../core/turn/AgentSockets.ts";
import { QueueLane } from "../../core/turn/QueueLane.ts";
import { OutgoingLane } from "../../core/turn/OutgoingLane.ts";
import { ScheduleTable } from "../../core/schedule/ScheduleTable.ts";
import { decodeEvent, encodeEvent, type JournalHead } from "../../schemas/JournalEvent.ts";
import type { TimeShape } from "../../core/time/Time.ts";
import { Board } from "./subjects.ts";

export interface PlantedBug {
  readonly name: string;
  /** The invariants that say so, any of them. */
  readonly breaks: ReadonlyArray<string>;
  /** The journal stores appends of a stale owner. */
  readonly acceptsStale?: true;
  /** A reader takes a damaged event for the journal's end. */
  readonly truncates?: true;
  /** Inputs are acked when they come. */
  readonly acksEarly?: true;
  /** A nak holds the whole shard's deliveries back. */
  readonly blocksShard?: true;
  /** Signatures are not looked at. */
  readonly verifiesNothing?: true;
  /** What is stored in an event's place. */
  readonly event?: (data: Uint8Array) => Uint8Array;
  /** Patches prototypes; the returned function takes it back. */
  readonly install?: () => () => void;
}

export const PLANTED_BUGS: ReadonlyArray<PlantedBug> = [
  { name: "the journal accepts stale appends", breaks: ["I1", "I2", "I3"], acceptsStale: true },
  {
    name: "the set of done inputs forgets",
    breaks: ["I1", "I4"],
    install: () => patch(DoneSet.prototype, "seqOf", () => () => undefined),
  },
  { name: "an input is acked before its commit", breaks: ["I1"], acksEarly: true },
  {
    name: "the output gate opens early",
    breaks: ["I9", "I13", "I6", "I1"],
    install: () =>
      patch(
        Committer.prototype,
        "afterCommit",
        () =>
          function (this: Committer, output) {
            output(hostOf(this).image.seq);
          },
      ),
  },
  {
    name: "a commit leaves the state out",
    breaks: ["I4", "I1"],
    event: rewrite((head) => ({
      ...head,
      turns: head.turns.map(({ state: _state, ...turn }) => turn),
    })),
  },
  {
    name: "a commit leaves out which inputs are done",
    breaks: ["I1", "I4"],
    event: rewrite((head) => ({
      ...head,
      turns: head.turns.map(({ done: _done, ...turn }) => turn),
    })),
  },
  {
    name: "attempts are not journaled",
    breaks: ["I7"],
    event: rewrite((head) => ({
      ...head,
      turns: head.turns.map(({ begun: _begun, ...turn }) => turn),
    })),
  },
  {
    name: "a timer fires early",
    breaks: ["I5"],
    install: () =>
      patch(
        Alarms.prototype,
        "armLocally",
        (plain) =>
          function (this: Alarms, row) {
            const early: TimeShape = agentOf(this).time;
            const due = row.dueMs;
            if (due !== null && due > early.nowMs() + EARLY_MS)
              early.after(due - early.nowMs() - EARLY_MS, () =>
                (this as unknown as { onDue: (id: string, due: number) => void }).onDue(
                  row.id,
                  due,
                ),
              );
            plain.call(this, row);
          },
      ),
  },
  {
    name: "a schedule that is due is forgotten by the broker",
    breaks: ["I5"],
    install: () => {
      const offArm = patch(Alarms.prototype, "arm", () => () => Promise.resolve());
      const offLocal = patch(Alarms.prototype, "armLocally", () => () => undefined);
      return () => {
        offArm();
        offLocal();
      };
    },
  },
  {
    name: "a cancelled schedule still runs",
    breaks: ["I6"],
    install: () =>
      // Only in memory: the table says that it is gone, what is armed goes on.
      patch(ScheduleTable.prototype, "get", (plain) => {
        const seen = new Map<string, ReturnType<ScheduleTable["get"]>>();
        return function (this: ScheduleTable, id) {
          const row = plain.call(this, id);
          if (row !== undefined) seen.set(id, row);
          return row ?? seen.get(id);
        };
      }),
  },
  { name: "a failed input holds back its whole shard", breaks: ["I8"], blocksShard: true },
  {
    name: "a frame carries the sequence of an older state",
    breaks: ["I9"],
    install: () =>
      patch(
        AgentSockets.prototype,
        "castState",
        (plain) =>
          function (this: AgentSockets, state, seq, except) {
            plain.call(this, state, seq - 1, except);
          },
      ),
  },
  {
    name: "a readonly connection is not",
    breaks: ["I10"],
    install: () => patch(Board.prototype, "shouldConnectionBeReadonly", () => () => false),
  },
  { name: "signatures are not verified", breaks: ["I10"], verifiesNothing: true },
  { name: "a damaged event ends the journal", breaks: ["I12"], truncates: true },
  {
    name: "a webhook is sent before its turn is stored",
    breaks: ["I13"],
    install: () =>
      patch(
        OutgoingLane.prototype as unknown as { push: QueueLane["push"] },
        "push",
        (plain) =>
          function (this: OutgoingLane, ...args) {
            const id = plain.apply(this, args);
            (this as unknown as { unstored: Set<string> }).unstored.clear();
            this.kick();
            return id;
          },
      ),
  },
];

/** More than every latency of a run. */
const EARLY_MS = 400;

/** Puts `make(plain)` in a method's place, as an own property; the returned function takes it away. */
function patch<T extends object, K extends keyof T>(
  on: T,
  key: K,
  make: (plain: T[K]) => T[K],
): () => void {
  const before = Object.getOwnPropertyDescriptor(on, key);
  Object.defineProperty(on, key, { value: make(on[key]), configurable: true, writable: true });
  return () => {
    if (before === undefined) delete on[key];
    else Object.defineProperty(on, key, before);
  };
}

function rewrite(change: (head: JournalHead) => JournalHead): (data: Uint8Array) => Uint8Array {
  return (data) => {
    const { head, delta } = decodeEvent(data);
    return encodeEvent(change(head), delta);
  };
}

const hostOf = (committer: Committer) =>
  (committer as unknown as { host: { image: { seq: never } } }).host;
const agentOf = (alarms: Alarms) => (alarms as unknown as { agent: { time: TimeShape } }).agent;
