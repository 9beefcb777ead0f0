/**
 * A year of an installation in minutes: agents write turns by signed webhooks through gateway and
 * host, and the process that trims keeps thirty days of each and archives the rest in a folder.
 * All of it is the product's own code on a broker in memory; the wall clock jumps from one part of
 * a day to the next.
 *
 * 1. Every event is hashed when the broker stores it, and what it was stored with: sequence and
 *    time. At the end the whole history of each agent, through archive and journal, has to have
 *    that hash.
 * 2. The state at the end of each month, of some agents, is what the history gives for that point.
 * 3. From the fourth month on the broker holds no more than it did in the third. Until then agents
 *    get as many bases and snapshots as are kept of each.
 * 4. The host and the process that trims are killed in the midst of their work, on days that the
 *    seed picks.
 */
import { createHash, type Hash } from "node:crypto";
import { setTimeout as delay } from "node:timers/promises";
import { archivedJournal } from "../../core/retention/archivedJournal.ts";
import type { ArchiveShape } from "../../core/retention/Archive.ts";
import { rebuildAgent } from "../../core/journal/rebuildAgent.ts";
import type { StoredEvent } from "../../core/journal/Journal.ts";
import { retentionMetrics } from "../../core/retention/RetentionMetrics.ts";
import { noMetrics } from "../../core/telemetry/Metrics.ts";
import type { LogShape } from "../../core/telemetry/Log.ts";
import { addressKey, agentId, type AgentId, type Sequence } from "../../schemas/Address.ts";
import type { MemoryBroker } from "../../services/memory/MemoryBroker.ts";
import type { Operation } from "../../services/memory/MemoryConnection.ts";
import { makeMemoryJournal } from "../../services/memory/MemoryJournal.ts";
import { makeMemoryLeases } from "../../services/memory/MemoryLeases.ts";
import { makeMemorySnapshots } from "../../services/memory/MemorySnapshots.ts";
import { readModule } from "../../services/module/readModule.ts";
import { Retention } from "../../services/retention/Retention.ts";
import { openSqliteDatabases } from "../../services/sqlite/sqliteDatabases.ts";
import { joinMemory, type MemoryInstallation } from "../../services/testing/joinMemory.ts";
import { TestAgents } from "../../services/testing/TestAgents.ts";
import { TestOutgoing } from "../../services/testing/TestOutgoing.ts";
import { limitsOf, type HistoryLimits } from "../../core/retention/HistoryLimits.ts";
import * as diaryModule from "./diaryModule.ts";

const { Diary, SECRET } = diaryModule;

export const DAY_MS = 24 * 3_600_000;
const MONTH_DAYS = 30;
/** A day's turns come in so many parts, hours apart. */
const PARTS_A_DAY = 3;
/** An agent has enough to be trimmed so often; the walks between only look. */
const WALK_DAYS = 3;
/** Agents whose states are compared at each month's end: each rebuild reads the history before. */
const SAMPLED = 10;
/** What days may differ by: when agents happen to be trimmed. */
const FLAT = 1.05;
/** Turns that are on their way at once. */
const AT_ONCE = 64;
/** Of days. What a dead host leaves behind in this process costs time on each later day. */
const HOST_KILLS = 0.02;
/** Of days. One that is due waits for the next trim. */
const TRIMMER_KILLS = 0.1;
/** Seldom enough to be cheap: the broker's own leases are of a day here. */
const RETENTION_TTL_MS = 15_000;
/** Virtual time that passes between two looks whether a walk has ended. */
const LOOK_MS = 5_000;
/** From the end of a walk to the begin of the next (`services/retention`). */
const PAUSE_MS = 60_000;
/** The most that is waited for the archive's disk at a time: it may also wait for virtual time. */
const DISK_MS = 50;
/** Of a trim, at the broker. The process that does it dies before the n-th of them. */
const STEPS: ReadonlySet<string> = new Set(["readBases", "putBase", "trim"]);
/** Those of two agents. */
const STEPS_MAX = 12;

export interface YearOptions {
  readonly agents: number;
  /** Of each agent. */
  readonly turns: number;
  readonly days: number;
  readonly seed: number;
  readonly archive: (time: MemoryInstallation["time"]) => ArchiveShape;
  /** Default: what the class says. */
  readonly limits?: HistoryLimits | "all";
  readonly tell?: (line: string) => void;
}

export interface YearReport {
  /** What did not hold, in words. */
  readonly wrong: ReadonlyArray<string>;
  readonly turns: number;
  readonly archived: number;
  readonly kills: number;
  /** At the end of each day. */
  readonly brokerBytes: ReadonlyArray<number>;
}

/** What was recorded of an agent. */
interface Recorded {
  readonly hash: Hash;
  count: number;
  last: StoredEvent | undefined;
  /** At the ends of months. */
  readonly states: Array<{ readonly seq: Sequence; readonly state: string }>;
}

export async function simulateYear(options: YearOptions): Promise<YearReport> {
  const year = await Year.open(options);
  try {
    for (let day = 0; day < options.days; day++) await year.day(day);
    return await year.report();
  } finally {
    await year.close();
  }
}

class Year {
  private readonly options: YearOptions;
  private readonly installation: MemoryInstallation;
  private readonly test: TestAgents;
  private readonly archive: ArchiveShape;
  private readonly ids: ReadonlyArray<AgentId>;
  private readonly recorded = new Map<string, Recorded>();
  private readonly brokerBytes: number[] = [];
  private trimmer: Awaited<ReturnType<Year["startTrimmer"]>> | undefined;
  private readonly archiving = new Set<Promise<unknown>>();
  private trimmers = 0;
  /** Until the process that trims is killed; undefined: it lives on. */
  private stepsLeft: number | undefined;
  private archived = 0;
  private kills = 0;
  private readonly wrong: string[] = [];

  private constructor(options: YearOptions, installation: MemoryInstallation, test: TestAgents) {
    this.options = options;
    this.installation = installation;
    this.test = test;
    this.archive = this.counted(options.archive(installation.time));
    this.ids = Array.from({ length: options.agents }, (_, n) => agentId(Diary.name, `diary-${n}`));
    const { broker } = installation;
    broker.journal.watch(({ id, event }) => this.record(id, event));
    const before = broker.intercept;
    broker.intercept = (operation) => {
      this.killAt(operation);
      return before?.(operation);
    };
  }

  static async open(options: YearOptions): Promise<Year> {
    let outgoing: TestOutgoing | undefined;
    const installation = await joinMemory({
      module: readModule(diaryModule, "the year's module"),
      env: {},
      seed: options.seed,
      startMs: undefined,
      publicUrl: "http://localhost",
      log: silent,
      outgoing: ({ nowMs }) => (outgoing = new TestOutgoing(nowMs, undefined)),
    });
    const test = new TestAgents({
      installation, outgoing: outgoing!, recorded: new Map(), logs: [], url: "http://localhost",
    }); // prettier-ignore
    return new Year(options, installation, test);
  }

  async close(): Promise<void> {
    this.trimmer?.kill();
    await this.test.close();
  }

  /** A part of each agent's turns, and now and then a walk through all journals. */
  async day(day: number): Promise<void> {
    const { turns, days } = this.options;
    const { time } = this.installation;
    let crashes = time.random() < HOST_KILLS;
    for (let part = 0; part < PARTS_A_DAY; part++) {
      time.jump(DAY_MS / PARTS_A_DAY);
      const at = day * PARTS_A_DAY + part;
      const parts = days * PARTS_A_DAY;
      const begin = Math.floor((at * turns) / parts);
      const end = Math.floor(((at + 1) * turns) / parts);
      const crash = crashes && end > begin ? this.crashHost() : undefined;
      if (crash !== undefined) crashes = false;
      await this.write(begin, end);
      await crash;
    }
    if (time.random() < TRIMMER_KILLS) this.stepsLeft ??= 1 + Math.floor(time.random() * STEPS_MAX);
    if (day % WALK_DAYS === 0) await this.walk();
    this.brokerBytes.push(bytesOf(this.installation.broker));
    if ((day + 1) % MONTH_DAYS === 0) await this.endMonth((day + 1) / MONTH_DAYS);
  }

  async report(): Promise<YearReport> {
    const { brokerBytes, archived, kills, wrong } = this;
    this.checkFlat();
    for (const [n, id] of this.ids.entries()) await this.checkHistory(id, n < SAMPLED);
    const turns = this.options.agents * this.options.turns;
    return { wrong, turns, archived, kills, brokerBytes };
  }

  private record(id: AgentId, event: StoredEvent): void {
    const key = addressKey(id);
    let known = this.recorded.get(key);
    if (known === undefined) {
      known = { hash: createHash("sha256"), count: 0, last: undefined, states: [] };
      this.recorded.set(key, known);
    }
    add(known.hash, event);
    known.count++;
    known.last = event;
  }

  private async write(begin: number, end: number): Promise<void> {
    for (let n = begin; n < end; n++)
      for (let from = 0; from < this.ids.length; from += AT_ONCE)
        await Promise.all(
          this.ids.slice(from, from + AT_ONCE).map(async ({ name }) => {
            const body = JSON.stringify({ diary: name, n: n + 1, text: textOf(name, n + 1) });
            const headers = this.test.sign.github(body, SECRET, { id: `${name}-${n + 1}` });
            const { status } = await this.test.webhook("/diary", body, headers);
            if (status >= 300) this.wrong.push(`turn ${n + 1} of ${name} was answered ${status}`);
          }),
        );
  }

  /** While turns run: what the host has not stored runs again on its successor. */
  private async crashHost(): Promise<void> {
    this.kills++;
    const isBefore = this.installation.time.random() < 0.5;
    await this.test.crashAt(isBefore ? "before commit" : "after commit");
    await this.test.revive();
  }

  /** Its disk works in the machine's time, which virtual time waits for. */
  private counted(archive: ArchiveShape): ArchiveShape {
    const put: ArchiveShape["put"] = (id, part) => {
      const stored = archive.put(id, part);
      const over = (): void => void this.archiving.delete(stored);
      this.archiving.add(stored);
      stored.then(over, over);
      return stored;
    };
    return Object.assign(Object.create(archive) as ArchiveShape, { put });
  }

  /** Until one has ended that began now. */
  private async walk(): Promise<void> {
    const { time } = this.installation;
    const beganMs = time.nowMs();
    for (;;) {
      this.trimmer ??= await this.startTrimmer();
      const { retention, lastWalkMs } = this.trimmer;
      if (lastWalkMs() >= beganMs + PAUSE_MS) return;
      await this.test.advance(LOOK_MS);
      await Promise.race([Promise.allSettled(this.archiving), delay(DISK_MS)]);
      const { failed, reason, waiting } = retention.state;
      if (this.trimmer !== undefined && (failed > 0 || waiting !== undefined))
        throw new Error(`the walk failed: ${reason ?? waiting}`);
    }
  }

  /** Of the one that trims, before it does a step of its work. Of others it does nothing. */
  private killAt({ connection, kind }: Operation): void {
    const { trimmer } = this;
    if (connection !== trimmer?.id || !STEPS.has(kind)) return;
    if (this.stepsLeft === undefined || --this.stepsLeft > 0) return;
    this.stepsLeft = undefined;
    this.kills++;
    trimmer.kill();
    this.trimmer = undefined;
  }

  private async startTrimmer() {
    const { broker, time } = this.installation;
    const id = `trimmer-${++this.trimmers}`;
    const connection = broker.connect(id);
    const { databases, close } = await openSqliteDatabases({ folder: undefined });
    const leases = makeMemoryLeases(connection);
    let lastWalk = (): number => 0;
    const limits = this.options.limits ?? Diary.options.history;
    const limited = limitsOf(limits);
    const retention = new Retention({
      journal: makeMemoryJournal(connection),
      snapshots: makeMemorySnapshots(connection),
      databases,
      leases: {
        ...leases,
        ttlMs: RETENTION_TTL_MS,
        // One that is dead would ask for ever.
        release: async (lease) => (connection.connected ? leases.release(lease) : undefined),
      },
      time,
      log: silent,
      metrics: {
        ...retentionMetrics(noMetrics),
        trimmed: (events) => (this.archived += events),
        lastWalk: (read) => (lastWalk = read),
      },
      id,
      archive: this.archive,
      classes: () => (limited === undefined ? [] : [{ className: Diary.name, limits: limited }]),
    });
    retention.start();
    return {
      id,
      retention,
      lastWalkMs: () => lastWalk() * 1_000,
      kill: () => {
        connection.close();
        broker.leases.expire(id);
        void retention.stop().finally(close);
      },
    };
  }

  private async endMonth(month: number): Promise<void> {
    for (const id of this.ids.slice(0, SAMPLED)) {
      const { last, states } = this.recorded.get(addressKey(id)) ?? {};
      if (last === undefined) continue;
      const state = await this.test.agent(Diary, id.name).state();
      states!.push({ seq: last.seq, state: JSON.stringify(state) });
    }
    // The broker keeps records of deliveries for fourteen days; the one in memory counts batches.
    this.installation.broker.deliveries.batches.taken.length = 0;
    globalThis.gc?.();
    const { heapUsed } = process.memoryUsage();
    const mb = (bytes: number): string => (bytes / 2 ** 20).toFixed(1);
    this.options.tell?.(
      `month ${month}: the broker holds ${mb(this.brokerBytes.at(-1)!)} MB, the process ${mb(heapUsed)} MB of heap; ${this.archived} events archived, ${this.kills} kills`,
    );
  }

  /** Rule 3. */
  private checkFlat(): void {
    const full = this.brokerBytes.slice(2 * MONTH_DAYS, 3 * MONTH_DAYS);
    const later = this.brokerBytes.slice(3 * MONTH_DAYS);
    const [before, after] = [Math.max(...full), Math.max(...later)];
    if (later.length > 0 && after > before * FLAT)
      this.wrong.push(`the broker held ${before} bytes in the third month and ${after} later`);
  }

  /** Rules 1 and 2. */
  private async checkHistory(id: AgentId, sampled: boolean): Promise<void> {
    const { journal: kept, snapshots, databases } = this.installation;
    const { hash, count, states } = this.recorded.get(addressKey(id))!;
    const journal = archivedJournal({ journal: kept, snapshots, archive: this.archive });
    const read = createHash("sha256");
    let events = 0;
    try {
      for await (const event of journal.read(id, { fromSeq: 1 as Sequence })) {
        add(read, event);
        events++;
      }
      if (events !== count || read.digest("hex") !== hash.digest("hex"))
        this.wrong.push(`${id.name}: ${count} events were stored, and ${events} read otherwise`);
      for (const { seq, state } of sampled ? states : []) {
        const then = await rebuildAgent(id, { journal, snapshots, databases, atSeq: seq });
        then.database.close();
        if (then.image.state !== state)
          this.wrong.push(`${id.name} at ${seq}: ${then.image.state}, and it was ${state}`);
      }
    } catch (error) {
      this.wrong.push(`${id.name} can't be read: ${String(error)}`);
    }
  }
}

function add(hash: Hash, { seq, storedMs, data }: StoredEvent): void {
  hash.update(`${seq} ${storedMs} ${data.length} `).update(data);
}

/** All that a broker would have on its disks. */
function bytesOf({ journal, snapshots, bases, blobs }: MemoryBroker): number {
  let bytes = 0;
  for (const { id } of journal.entries())
    for (const { data } of journal.eventsOf(id)) bytes += data.length;
  for (const kept of snapshots.values()) for (const data of kept) bytes += data.length;
  for (const [, { copies }] of bases.all()) for (const data of copies) bytes += data?.length ?? 0;
  for (const data of blobs.values()) bytes += data.length;
  return bytes;
}

/** Of some 200 characters, other for each turn. */
const textOf = (name: string, n: number): string =>
  createHash("sha512").update(`${name} ${n}`).digest("base64").repeat(2);

const ignore = (): void => undefined;
const silent: LogShape = { debug: ignore, info: ignore, warn: ignore, error: ignore };
