/** The stored formats, each with a full sample and the reader that later releases must keep. */
import { agentFileEnd, agentFileEvent, agentFileHead, AgentFileReader, readAgentFileHead } from "../../../schemas/AgentFile.ts"; // prettier-ignore
import { agentId } from "../../../schemas/Address.ts";
import {
  decodeEntry,
  decodeManifest,
  encodeEntry,
  encodeManifest,
} from "../../../schemas/BackupFile.ts";
import { DeadLetterHead, decodeDeadLetter, encodeDeadLetter } from "../../../schemas/DeadLetter.ts";
import { decodeReceipt, encodeReceipt, ErasureReceipt } from "../../../schemas/ErasureReceipt.ts";
import { DeliveryRecord } from "../../../schemas/DeliveryRecord.ts";
import { decodeRecords, encodeRecords } from "../../../schemas/RecordBatch.ts";
import { decodeEnvelope, encodeEnvelope, InboxHead } from "../../../schemas/InboxEnvelope.ts";
import {
  Cause,
  decodeEvent,
  encodeEvent,
  JournalHead,
  StepRecord,
  TurnRecord,
} from "../../../schemas/JournalEvent.ts";
import { pageDeltaBetween } from "../../../schemas/PageDelta.ts";
import { applyPageDelta } from "../../kit/pages.ts";
import { decodeSnapshot, encodeSnapshot, SnapshotHead } from "../../../schemas/Snapshot.ts";
import {
  decodeSignal,
  encodeSignal,
  type WorkflowSignal,
} from "../../../schemas/WorkflowSignal.ts";
import { decodePosition, encodePosition } from "../../../core/changes/ChangePosition.ts";
import { CAUSE, TURN, USUAL } from "../usualHead.ts";

export interface Format {
  readonly write: () => Uint8Array;
  /** As JSON can have it. */
  readonly read: (bytes: Uint8Array) => unknown;
  /** Fields of schemas that the sample must have, so that a new one needs a new file. */
  readonly fields?: ReadonlyArray<string>;
}

const AGENT = ["Ledger", "a"] as const;
const ID = agentId("Ledger", "a");
const TIME = 1_700_000_000_000;
/** SQLite's header says 4,096 bytes a page, in two bytes from 16 on. */
const page = (n: number): number => (n === 16 ? 0x10 : n === 17 ? 0 : n % 251);
const PAGES = {
  before: new Uint8Array(4_096),
  after: Uint8Array.from({ length: 8_192 }, (_, n) => page(n)),
};
const BODY = new TextEncoder().encode('{"a":1}');
const text = (bytes: Uint8Array): string => new TextDecoder().decode(bytes);
const bytesOf = (written: string): Uint8Array => new TextEncoder().encode(written);
const base64 = (bytes: Uint8Array): string => Buffer.from(bytes).toString("base64");
const keys = (...schemas: ReadonlyArray<{ readonly fields: object }>): string[] =>
  schemas.flatMap(({ fields }) => Object.keys(fields));

const PLACE = {
  segment: "agents/Ledger/2026-11-25/03/1.jsonl.gz",
  offset: 7,
  bytes: 9,
  sha256: "00",
};
const SNAPSHOT: SnapshotHead = {
  agent: AGENT, seq: 9, epoch: 3, time: TIME, state: { n: 1 }, stateText: '{"n":1.0}', done: [["github:1", TIME, 8]],
  begun: [["github:2", 1, 4]], steps: [["github:2", [["1:charge", { id: "ch" }], ["2:mail"]]]],
  parts: [8, [["github:2", "webhook"]]], life: 2, entity: "Acme/Site", pages: 2, since: [3, 400], archive: PLACE,
}; // prettier-ignore
const INPUT: InboxHead = {
  key: "github:1", alsoKeys: ["github:replay:1"], kind: "webhook", time: TIME, provider: "github", route: "/hook",
  verified: false, type: "push", method: "POST", url: "http://h/hook", headers: { a: "b" }, entity: "Acme/Site",
  delivery: "mwvbsxl7-70lqa00", redact: ["customer.email"], traceparent: CAUSE.traceparent,
  reply: { subject: "agents.reply", id: "1", ms: 9_500 }, redrive: 4,
  mail: { from: "a@example.com", to: "b@example.com", secureRouted: true },
  job: { kind: "queue", key: "queue:1" },
}; // prettier-ignore
const RECORD: DeliveryRecord = {
  id: "mwvbsxl7-70lqa00.1", at: TIME, status: "failed", time: TIME, route: "/hook", provider: "github", type: "push", method: "POST", from: "192.0.2.1", parts: 2,
  agent: AGENT, key: "github:1", bytes: 7, http: 500, ms: 12, why: "no", seq: 9, duplicateOf: 8, attempt: 1,
  attempts: 3, nextMs: TIME, error: "Error: no", of: "mwvbsxl7-70lqa01", more: 2, trace: "0".repeat(32),
} as DeliveryRecord; // prettier-ignore
const SIGNALS: ReadonlyArray<WorkflowSignal> = [
  { kind: "start", workflowName: "W", agent: AGENT, params: { a: 1 }, time: TIME },
  { kind: "event", type: "paid", payload: 1, time: TIME },
  { kind: "callback", type: "complete", workflowName: "W", workflowId: "w", time: TIME, value: 2 },
  { kind: "state", change: "merge", value: { n: 2 } },
];
const ENTRY = { id: ID, seq: 3, storedMs: TIME, data: BODY };
const MANIFEST = {
  namespace: "agents", time: "2026-11-25T03:00:00.000Z", inputs: 1, events: 2, letters: 3, id: "backup-1",
  streams: [{ created: "2026-11-01T00:00:00Z", end: 42 }], shares: 8,
  files: [{ name: "events-0-1-7.jsonl.gz", kind: "events", share: 7, lines: 2, sum: "bb" } as const],
}; // prettier-ignore

const RECEIPT: ErasureReceipt = {
  time: "2026-11-25T03:00:00.000Z", namespace: "agents", archive: "s3://bucket/agents",
  agents: [{
    class: "Ledger", name: "a", end: 9, removed: { events: 8, inputs: 1 },
    archived: [{ ...PLACE, now: "11" }], hosts: ["h"], silent: ["i"],
  }],
  away: ["nats-3"], backups: [{ folder: "/backups/sunday", id: "backup-0", time: "2026-11-01T00:00:00Z", lines: 3 }],
}; // prettier-ignore

const event = (head: JournalHead, delta?: Uint8Array): Format => ({
  write: () => encodeEvent(head, delta),
  read: (bytes) => {
    const read = decodeEvent(bytes);
    return { head: read.head, delta: base64(read.delta) };
  },
});
const { turns: _turns, part: _part, ...BARE } = USUAL;

export const FORMATS: Readonly<Record<string, Format>> = {
  event: {
    ...event(
      { ...USUAL, turns: [{ ...TURN, begun: true, dead: true, cause: { ...CAUSE, bodyBase64: "AA==" } }] },
      BODY,
    ),
    fields: keys(JournalHead, TurnRecord, Cause, StepRecord),
  },
  "event-claimed": event({ ...BARE, kind: "claimed", turns: [] }),
  "event-destroyed": event({ ...BARE, kind: "destroyed", turns: [{ cause: { kind: "rpc" }, state: { clear: true } }] }),
  snapshot: {
    write: () => encodeSnapshot(SNAPSHOT, BODY),
    read: (bytes) => {
      const { head, image } = decodeSnapshot(bytes);
      return { head, image: base64(image) };
    },
    fields: keys(SnapshotHead),
  },
  input: {
    write: () => encodeEnvelope(INPUT, BODY),
    read: (bytes) => {
      const { head, body } = decodeEnvelope(bytes);
      return { head, body: text(body) };
    },
    fields: keys(InboxHead),
  },
  letter: {
    write: () => encodeDeadLetter({ agent: AGENT, seq: 4, reason: "no", host: "h", time: TIME, undone: true }, BODY),
    read: (bytes) => {
      const { head, input } = decodeDeadLetter(bytes);
      return { head, input: text(input) };
    },
    fields: keys(DeadLetterHead),
  },
  deliveries: {
    write: () => encodeRecords({ by: "gateway-1", records: [RECORD, { id: "mwvbsxl7-70lqa02", at: TIME, status: "answered" }] }),
    read: decodeRecords,
    fields: keys(DeliveryRecord),
  },
  signals: {
    write: () => bytesOf(SIGNALS.map((signal) => text(encodeSignal(signal))).join("\n")),
    read: (bytes) => text(bytes).split("\n").map((line) => decodeSignal(bytesOf(line))),
  },
  delta: {
    write: () => pageDeltaBetween(PAGES.before, PAGES.after),
    read: (bytes) => base64(applyPageDelta(PAGES.before, bytes)),
  },
  "agent-file": {
    write: () => bytesOf([agentFileHead(ID, TIME), agentFileEvent(ENTRY), agentFileEnd(1)].join("\n")),
    read: (bytes) => {
      const [first = "", ...lines] = text(bytes).split("\n");
      const reader = new AgentFileReader();
      const read = lines.map((line) => reader.read(line));
      reader.finish();
      return { id: readAgentFileHead(first), read: read.map((each) => each && { ...each, data: base64(each.data) }) };
    },
  },
  "backup-manifest": {
    write: () => bytesOf(encodeManifest(MANIFEST)),
    read: (bytes) => decodeManifest(text(bytes)),
  },
  "backup-manifest-increment": {
    write: () => bytesOf(encodeManifest({ ...MANIFEST, since: { folder: "../sunday", id: "backup-0" } })),
    read: (bytes) => decodeManifest(text(bytes)),
  },
  "backup-entry": {
    write: () => bytesOf(encodeEntry(ENTRY)),
    read: (bytes) => {
      const { data, ...entry } = decodeEntry(text(bytes));
      return { ...entry, data: base64(data) };
    },
  },
  receipt: {
    write: () => bytesOf(encodeReceipt(RECEIPT, () => "00")),
    read: (bytes) => decodeReceipt(text(bytes), () => "00"),
    fields: keys(ErasureReceipt),
  },
  position: {
    write: () => bytesOf(encodePosition({ seqs: [1, 2], catchUp: { to: [3, 4], agent: "Ledger/a", seq: 2 } })),
    read: (bytes) => decodePosition(text(bytes)),
  },
}; // prettier-ignore
