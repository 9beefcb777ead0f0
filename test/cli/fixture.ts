/** An installation for tests of reading commands: journals in memory, a recording terminal. */
import { agentId, type Epoch, type Sequence } from "../../schemas/Address.ts";
import { encodeEvent, type JournalHead, type TurnRecord } from "../../schemas/JournalEvent.ts";
import type { CallClient } from "../../core/call/CallClient.ts";
import type { AgentDatabase, DatabasesShape } from "../../core/database/Databases.ts";
import type { Joins } from "../../services/wiring/Joins.ts";
import type { Target } from "../../services/wiring/ReadPorts.ts";
import type { Terminal } from "../../services/cli/terminal/Terminal.ts";
import { MemoryBroker } from "../../services/memory/MemoryBroker.ts";
import { makeMemoryDeadLetters } from "../../services/memory/MemoryDeadLetters.ts";
import { makeMemoryDeliveryLog } from "../../services/memory/MemoryDeliveryLog.ts";
import { makeMemoryInbox } from "../../services/memory/MemoryInbox.ts";
import { makeMemoryJournalFeed } from "../../services/memory/MemoryJournalFeed.ts";
import { makeMemoryJournal } from "../../services/memory/MemoryJournal.ts";
import { makeMemoryQuarantines } from "../../services/memory/MemoryQuarantines.ts";
import { makeMemorySnapshots } from "../../services/memory/MemorySnapshots.ts";
import { makeMemoryTimers } from "../../services/memory/MemoryTimers.ts";
import { machineTime } from "../../services/node/MachineTime.ts";
import type { AgentsRun } from "../kit/runAgents.ts";
import { runCommand } from "../kit/runCommand.ts";

/** 2026-03-01T09:00:00Z; event n of an agent is n minutes later. */
export const START_MS = Date.UTC(2026, 2, 1, 9);
const MINUTE_MS = 60_000;

export class CliFixture {
  private readonly databases: DatabasesShape | undefined;

  /** `databases`: in the place of the double. */
  constructor(databases?: DatabasesShape) {
    this.databases = databases;
  }

  readonly broker = new MemoryBroker({ time: machineTime });
  readonly targets: Target[] = [];
  opened = 0;
  readonly deadLetters = makeMemoryDeadLetters(this.broker.connect());
  readonly deliveries = makeMemoryDeliveryLog(this.broker.connect());
  /** A host's answer to a call. */
  answer: CallClient["call"] = () => Promise.reject(new Error("no call is expected"));
  private readonly journal = makeMemoryJournal(this.broker.connect());

  /** Appends one event; each turn is given as what changed. */
  async append(
    className: string,
    name: string,
    turns: ReadonlyArray<Partial<TurnRecord>>,
    more: Partial<JournalHead> & { readonly delta?: string | Uint8Array } = {},
  ): Promise<number> {
    const id = agentId(className, name);
    const last = await this.journal.last(id);
    const { delta = "", ...head } = more;
    let count = 0;
    for await (const _ of this.journal.read(id, { fromSeq: 1 as Sequence })) count++;
    const event: JournalHead = {
      id: `${className}/${name}/${count}`,
      agent: [className, name],
      kind: "turns",
      host: "host-1",
      epoch: 1 as Epoch,
      time: START_MS + count * MINUTE_MS,
      turns: turns.map((turn) => ({ cause: { kind: "request" }, ...turn })),
      ...head,
    };
    const stored = await this.journal.append(
      id,
      encodeEvent(event, typeof delta === "string" ? Buffer.from(delta) : delta),
      {
        expectedSeq: last?.seq ?? (0 as Sequence),
        signal: AbortSignal.timeout(1_000),
      },
    );
    if (stored._tag !== "Stored") throw new Error(`not stored: ${stored._tag}`);
    return stored.seq;
  }

  /** Runs one command line. */
  run(args: ReadonlyArray<string>, terminal: Partial<Terminal> = {}): Promise<AgentsRun> {
    return runCommand(args, { joins: this.joins, terminal });
  }

  private readonly joins: Joins = {
    time: machineTime,
    log: () => ({ debug() {}, info() {}, warn() {}, error() {} }),
    openReader: async (target) => {
      this.targets.push(target);
      this.opened++;
      return {
        journal: this.journal,
        feed: makeMemoryJournalFeed(this.broker.connect()),
        deadLetters: this.deadLetters,
        deliveries: this.deliveries,
        inbox: makeMemoryInbox(this.broker.connect()),
        calls: { call: (...args) => this.answer(...args) },
        timers: makeMemoryTimers(this.broker.connect()),
        snapshots: makeMemorySnapshots(this.broker.connect()),
        databases: this.databases ?? {
          open: () => ({ database: doubleDatabase() }),
          discard: () => {},
          memoryBytes: () => 0,
          unusedBytes: () => 0,
        },
        leases: {
          list: async (prefix) =>
            Array.from({ length: this.broker.shards }, (_, shard) => ({
              key: `${prefix}${shard}`,
              value: `owner-of-${shard}`,
              epoch: 1 as Epoch,
            })),
        },
        quarantines: makeMemoryQuarantines(this.broker.connect()),
        shards: this.broker.shards,
        namespace: "agents",
        stored: () => {
          throw new Error("not in these tests");
        },
        changes: {
          streams: () => Promise.reject(new Error("not in these tests")),
          between: () => {
            throw new Error("not in these tests");
          },
          groupOf: () => 0,
        },
        purgeInputs: () => Promise.reject(new Error("not in these tests")),
        purge: () => Promise.reject(new Error("not in these tests")),
        awayCopies: () => Promise.reject(new Error("not in these tests")),
        tellErased: () => Promise.reject(new Error("not in these tests")),
        close: async () => void this.opened--,
      };
    },
    provision: async (target, settings) => ({
      lines: [`${target.natsUrl} ${target.namespace} ${JSON.stringify(settings)}`],
      lost: [],
      lostTriggers: false,
    }),
    begin: () => Promise.reject(new Error("not in these tests")),
    serveConsole: () => Promise.reject(new Error("not in these tests")),
    openDatabases: () => Promise.reject(new Error("not in these tests")),
    runSelf: () => Promise.reject(new Error("not in these tests")),
    rerunOn: () => Promise.reject(new Error("not in these tests")),
    openBroker: () => Promise.reject(new Error("not in these tests")),
    openLeases: () => Promise.reject(new Error("not in these tests")),
    link: undefined,
    startWorker: () => {
      throw new Error("not in these tests");
    },
  };
}

/** `read` answers one row per applied delta, in order; `WRITE` and `FAIL` throw. */
function doubleDatabase(): AgentDatabase {
  const deltas: string[] = [];
  return {
    query: () => {
      throw new Error("not in these tests");
    },
    read: (sql) => {
      if (sql === "FAIL") throw new Error("no such table: events");
      if (sql === "WRITE") throw new Error("the statement writes");
      const rows = deltas.map((delta, i) => [i, delta, null, new Uint8Array([1, 2]), 2n ** 60n]);
      return {
        columns: ["n", "text", "none", "blob", "big"],
        rows,
        wrote: false,
        rowsWritten: 0,
      };
    },
    transaction: (f) => f(),
    beginTransaction: () => {
      throw new Error("not in these tests");
    },
    create: () => undefined,
    isEmpty: true,
    mayHaveTable: () => false,
    uncommittedBytesMax: Infinity,
    overflowed: false,
    writes: 0,
    dirty: false,
    freeze: () => undefined,
    committed: () => {},
    apply: (delta) => void deltas.push(Buffer.from(delta).toString()),
    restore: () => {},
    image: () => new Uint8Array(0),
    imageBytes: 0,
    memoryBytes: 0,
    close: () => {},
  };
}
