/** Bugs to plant in a run from outside, one for each guarantee: the checkers must find them. */
import { DoneSet } from "../../../core/journal/DoneSet.ts";
import { ActiveAgent } from "../../../core/runtime/ActiveAgent.ts";
import { BrokerTimers } from "../../../core/schedule/BrokerTimers.ts";
import { LocalTimers } from "../../../core/schedule/LocalTimers.ts";
import { AgentSockets } from "../../../core/runtime/AgentSockets.ts";
import { Connection } from "../../../core/connection/Connection.ts";
import { InputRuns } from "../../../core/input/InputRuns.ts";
import { MailLane } from "../../../core/outgoing/MailLane.ts";
import { OutgoingLane } from "../../../core/outgoing/OutgoingLane.ts";
import { CacheFile } from "../../../services/sqlite/CacheFile.ts";
import { PageImage } from "../../../services/sqlite/PageImage.ts";
import { KnownSchedules } from "../../../core/schedule/KnownSchedules.ts";
import { Scheduler } from "../../../core/schedule/Scheduler.ts";
import type { Turn } from "../../../core/turn/Turn.ts";
import { ScheduleTable } from "../../../core/schedule/ScheduleTable.ts";
import { decodeEvent, encodeEvent, type JournalHead } from "../../../schemas/JournalEvent.ts";
import type { TimeShape } from "../../../core/time/Time.ts";
import { patch } from "../rig/patch.ts";
import { ERRAND_BUGS } from "./plantedErrandBugs.ts";
import { LEASE_BUGS } from "./plantedLeaseBugs.ts";
import { CALL_BUGS } from "./plantedCallBugs.ts";
import { MARCH_BUGS } from "./plantedMarchBugs.ts";
import { PAYMENT_BUGS } from "./plantedPaymentBugs.ts";
import { RESTORE_BUGS } from "./plantedRestoreBugs.ts";
import { PETITION_BUGS } from "./plantedPetitionBugs.ts";
import { STOP_BUGS } from "./plantedStopBugs.ts";
import { LATE_MS, sendsEarly, sendsEarlyInTurn } from "./sendEarly.ts";
import { Board, type SubjectEnv } from "../subjects.ts";

export interface PlantedBug {
  readonly name: string;
  /** A seed that catches it soon, where that is not 1: tried first, and no more than a hint. */
  readonly caughtBy?: number;
  /** The invariants that say so, any of them. */
  readonly breaks: ReadonlyArray<string>;
  /** The journal stores appends of a stale owner. */
  readonly acceptsStale?: true;
  /** A reader passes a damaged event over. */
  readonly skipsDamage?: true;
  /** Inputs are acked when they come. */
  readonly acksEarly?: true;
  /** A nak holds the whole shard's deliveries back. */
  readonly blocksShard?: true;
  /** A batch of appends that was lost is said to be stored. */
  readonly groupsLie?: true;
  /** Mails are distinguished only by their Message-ID. */
  readonly mergesMail?: true;
  /** Signatures are not looked at. */
  readonly verifiesNothing?: true;
  /** The archive says that events are durable before they are. */
  readonly archivesLate?: true;
  /** The base of a trimmed journal lacks the pages of its last event. */
  readonly basesLag?: true;
  /** What is stored instead of an event. */
  readonly event?: (data: Uint8Array) => Uint8Array;
  /** Patches prototypes; the returned function takes it back. */
  readonly install?: () => () => void;
}

export const PLANTED_BUGS: ReadonlyArray<PlantedBug> = [
  {
    name: "the journal accepts stale appends",
    caughtBy: 8,
    breaks: ["I1", "I2", "I3"],
    acceptsStale: true,
  },
  {
    name: "the set of done inputs forgets",
    caughtBy: 1,
    breaks: ["I1", "I4"],
    install: () => patch(DoneSet.prototype, "seqOf", () => () => undefined),
  },
  { name: "an input is acked before its commit", caughtBy: 2, breaks: ["I1"], acksEarly: true },
  {
    name: "the output gate opens early",
    caughtBy: 3,
    breaks: ["I9", "I1"],
    install: () => {
      const offAnswers = patch(
        InputRuns.prototype as unknown as { commitEnd: (turn: Turn) => Promise<void> },
        "commitEnd",
        () =>
          function (this: { agent: ActiveAgent }, turn) {
            this.agent.committer.end(turn);
            return Promise.resolve();
          },
      );
      const offFrames = patch(
        AgentSockets.prototype as unknown as { gated: (f: () => void) => void },
        "gated",
        () => (f) => f(),
      );
      return () => {
        offAnswers();
        offFrames();
      };
    },
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
    caughtBy: 3,
    breaks: ["I1", "I4"],
    event: rewrite((head) => ({
      ...head,
      turns: head.turns.map(({ done: _done, ...turn }) => turn),
    })),
  },
  {
    name: "attempts are not journaled",
    caughtBy: 15,
    breaks: ["I7"],
    event: rewrite((head) => ({
      ...head,
      turns: head.turns.map(({ begun: _begun, ...turn }) => turn),
    })),
  },
  {
    name: "a timer fires early",
    caughtBy: 8,
    breaks: ["I5"],
    install: () =>
      patch(
        LocalTimers.prototype,
        "arm",
        (plain) =>
          function (this: LocalTimers, row) {
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
    caughtBy: 4,
    breaks: ["I5"],
    install: () => {
      const offArm = patch(BrokerTimers.prototype, "arm", () => () => Promise.resolve());
      const offLocal = patch(LocalTimers.prototype, "arm", () => () => undefined);
      return () => {
        offArm();
        offLocal();
      };
    },
  },
  {
    name: "a schedule is taken for covered by an alarm that nobody armed",
    caughtBy: 4,
    breaks: ["I5"],
    install: () => patch(BrokerTimers.prototype, "arm", () => () => Promise.resolve()),
  },
  {
    name: "a cancelled schedule still runs",
    caughtBy: 8,
    breaks: ["I6"],
    install: () => {
      // The running code sees the row as it was; the commit sees that it is gone.
      const plain = ScheduleTable.prototype.get;
      const rows = new Map<string, ReturnType<ScheduleTable["get"]>>();
      const offs = [
        patch(
          ScheduleTable.prototype,
          "get",
          () =>
            function (this: ScheduleTable, id) {
              const row = plain.call(this, id);
              if (row !== undefined) rows.set(id, row);
              return row ?? rows.get(id);
            },
        ),
        patch(
          KnownSchedules.prototype as unknown as {
            readRow: (id: string) => ReturnType<typeof plain>;
          },
          "readRow",
          () =>
            function (this: { table: ScheduleTable }, id) {
              return plain.call(this.table, id);
            },
        ),
        patch(
          Scheduler.prototype as unknown as SchedulerParts,
          "fire",
          (fire) =>
            function (this: SchedulerParts, id, dueMs) {
              const row = rows.get(id);
              if (this.known.rows.has(id) || row === undefined) fire.call(this, id, dueMs);
              else if (!this.agent.discarded) this.begin(row, dueMs);
            },
        ),
        patch(LocalTimers.prototype, "disarm", () => () => undefined),
      ];
      return () => {
        for (const off of offs) off();
      };
    },
  },
  {
    name: "a failed input holds back its whole shard",
    caughtBy: 3,
    breaks: ["I8"],
    blocksShard: true,
  },
  {
    name: "a frame carries the sequence of an older state",
    caughtBy: 2,
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
    caughtBy: 8,
    breaks: ["I10"],
    install: () => patch(Board.prototype, "shouldConnectionBeReadonly", () => () => false),
  },
  {
    name: "a message is overtaken by the next",
    caughtBy: 2,
    breaks: ["I14"],
    install: () =>
      patch(
        Board.prototype,
        "onMessage",
        (plain) =>
          async function (this: Board, connection, message) {
            const order = Number(/\d+/.exec(String(message))?.[0]);
            await (this as unknown as { env: SubjectEnv }).env.sim.sleep(
              order % 2 === 0 ? 0 : LATE_MS,
            );
            plain.call(this, connection, message);
          },
      ),
  },
  {
    name: "an agent ignores numbers of messages",
    caughtBy: 56,
    breaks: ["I14"],
    install: () =>
      patch(
        AgentSockets.prototype,
        "get",
        (plain) =>
          function (this: AgentSockets, key) {
            const connection = plain.call(this, key);
            // Neither more nor less than any number, and known.
            if (connection !== undefined)
              Object.defineProperty(Connection.internals(connection), "next", {
                get: () => NaN,
                set: () => {},
                configurable: true,
              });
            return connection;
          },
      ),
  },
  ...ERRAND_BUGS,
  ...MARCH_BUGS,
  ...STOP_BUGS,
  ...CALL_BUGS,
  ...LEASE_BUGS,
  ...PAYMENT_BUGS,
  ...RESTORE_BUGS,
  ...PETITION_BUGS,
  {
    name: "local files of an erased agent stay",
    caughtBy: 6,
    breaks: ["I11"],
    install: () => patch(CacheFile.prototype, "remove", () => () => undefined),
  },
  {
    name: "what a full disk refused counts as written",
    caughtBy: 46,
    // What an agent that woke on it met, or what is left of it.
    breaks: ["I2", "defect"],
    install: () => {
      const offWrite = patch(
        CacheFile.prototype,
        "write",
        (plain) =>
          function (this: CacheFile, page, bytes) {
            try {
              plain.call(this, page, bytes);
            } catch {
              // As if it had room.
            }
          },
      );
      const offRead = patch(
        PageImage.prototype as unknown as PageImageParts,
        "readRun",
        () =>
          function (this: PageImageParts, first, into) {
            this.file!.read(first, into);
          },
      );
      return () => {
        offWrite();
        offRead();
      };
    },
  },
  { name: "signatures are not verified", caughtBy: 6, breaks: ["I10"], verifiesNothing: true },
  {
    name: "a damaged event is passed over",
    caughtBy: 143,
    breaks: ["I12"],
    skipsDamage: true,
    // Else the next event, which names it, tells of the hole.
    event: rewrite(({ after: _before, ...head }) => head),
  },
  {
    name: "a batch that was lost counts as stored",
    caughtBy: 58,
    breaks: ["I1", "I2", "I9"],
    groupsLie: true,
  },
  { name: "the snapshot covers less than it says", caughtBy: 39, breaks: ["I18"], basesLag: true },
  {
    name: "trimmed before the archive was durable",
    caughtBy: 3,
    breaks: ["I19"],
    archivesLate: true,
  },
  { name: "two mails of one Message-ID are one", caughtBy: 5, breaks: ["I1"], mergesMail: true },
  {
    name: "a mail is sent before its turn is stored",
    caughtBy: 3,
    breaks: ["I13"],
    install: () => sendsEarlyInTurn(MailLane.prototype, "replyToEmail"),
  },
  {
    name: "a webhook is sent before its turn is stored",
    caughtBy: 9,
    breaks: ["I13"],
    install: () => sendsEarly(OutgoingLane.prototype),
  },
];

/** The private members of a `Scheduler` that a bug needs. */
interface SchedulerParts {
  readonly agent: ActiveAgent;
  readonly known: { readonly rows: { has(id: string): boolean } };
  fire: (id: string, dueMs: number) => void;
  begin: (row: NonNullable<ReturnType<ScheduleTable["get"]>>, dueMs: number) => void;
}

/** And of a `PageImage`. */
interface PageImageParts {
  readonly file: CacheFile | undefined;
  readRun: (first: number, into: Uint8Array) => void;
}

/** More than every latency of a run. */
const EARLY_MS = 400;

function rewrite(change: (head: JournalHead) => JournalHead): (data: Uint8Array) => Uint8Array {
  return (data) => {
    const { head, delta } = decodeEvent(data);
    return encodeEvent(change(head), delta);
  };
}

const agentOf = (timers: LocalTimers) =>
  (timers as unknown as { agent: { time: TimeShape } }).agent;
