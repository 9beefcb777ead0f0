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
 * 4. On days that the seed picks, the host is killed while turns run, and the process that trims at
 *    one of its steps (`STEPS`): whatever that process still does has no effect.
 */
import { createHash, createHmac, type Hash } from "node:crypto";
import { gunzipSync, gzipSync } from "node:zlib";
import type { HttpRequest } from "../../core/http/HttpServer.ts";
import { archivedJournal } from "../../core/retention/archivedJournal.ts";
import type { ArchiveShape } from "../../core/retention/Archive.ts";
import { rebuildAgent } from "../../core/journal/rebuildAgent.ts";
import type { StoredEvent } from "../../core/journal/Journal.ts";
import { retentionMetrics } from "../../core/retention/RetentionMetrics.ts";
import { noMetrics } from "../../core/telemetry/Metrics.ts";
import type { LogShape } from "../../core/telemetry/Log.ts";
import { addressKey, agentId, type AgentId, type Sequence } from "../../schemas/Address.ts";
import type { ArchiveStore } from "../../services/archive/ArchiveStore.ts";
import { SegmentArchive } from "../../services/archive/SegmentArchive.ts";
import type { MemoryBroker } from "../../services/memory/MemoryBroker.ts";
import type { Operation } from "../../services/memory/MemoryConnection.ts";
import { makeMemoryJournal } from "../../services/memory/MemoryJournal.ts";
import { makeMemoryLeases } from "../../services/memory/MemoryLeases.ts";
import { makeMemorySnapshots } from "../../services/memory/MemorySnapshots.ts";
import { readModule } from "../../services/module/readModule.ts";
import { Retention } from "../../services/retention/Retention.ts";
import { openSqliteDatabases } from "../../services/sqlite/sqliteDatabases.ts";
import { joinMemory, type MemoryInstallation } from "../../services/testing/joinMemory.ts";
import { drive, type Driven } from "../../services/testing/drive.ts";
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
/** Histories from one line of progress to the next. */
const READ_TOLD = 100;
/** What days may differ by: when agents happen to be trimmed. */
const FLAT = 1.05;
/** Agents whose turns are on their way at once. */
const AT_ONCE = 64;
/** How long a lost host's lease takes to expire, as in production. */
const TAKE_OVER_MS = 5_000;
/** The chance on each day. What a dead host leaves in this process costs time on later days. */
const HOST_KILLS = 0.02;
/** The chance on each day. One that is due waits for the next trim. */
const TRIMMER_KILLS = 0.1;
/** Seldom enough to be cheap: the broker's own leases are of a day here. */
const RETENTION_TTL_MS = 15_000;
/** Virtual time that passes between two looks whether a walk has ended. */
const LOOK_MS = 500;
/** From the end of a walk to the begin of the next (`services/retention`). */
const PAUSE_MS = 60_000;
/** The steps of a trim. The process that does it dies at the n-th of one of them. */
const STEPS = ["readBases", "putBase", "trim", "before archiving", "after archiving"] as const;
type Step = (typeof STEPS)[number];
/** As many agents as are trimmed at once, so that any of them is met. */
const STEPS_MAX = 16;

export interface YearOptions {
  readonly agents: number;
  /** The number for each agent. */
  readonly turns: number;
  readonly days: number;
  readonly seed: number;
  /** Where the archive is. */
  readonly store: ArchiveStore;
  /** A fault in the archive. Default: none. */
  readonly spoil?: (archive: ArchiveShape) => Partial<ArchiveShape>;
  /** Default: what the class says. */
  readonly limits?: HistoryLimits | "all";
  readonly tell?: (line: string) => void;
}

export interface YearReport {
  /** What did not hold, in words. */
  readonly wrong: ReadonlyArray<string>;
  readonly turns: number;
  readonly archived: number;
  /** How often the host was killed, and the process that trims at each step. */
  readonly kills: ReadonlyMap<"host" | Step, number>;
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
  private readonly driven: Driven;
  private readonly archive: ArchiveShape;
  private readonly ids: ReadonlyArray<AgentId>;
  private readonly recorded = new Map<string, Recorded>();
  private readonly brokerBytes: number[] = [];
  private trimmer: Awaited<ReturnType<Year["startTrimmer"]>> | undefined;
  /** What the archive's disk is at. */
  private readonly working = new Set<Promise<unknown>>();
  private trimmers = 0;
  /** When the process that trims is killed; undefined: it lives on. */
  private doom: { readonly step: Step; left: number } | undefined;
  private archived = 0;
  private readonly kills = new Map<"host" | Step, number>();
  private readonly wrong: string[] = [];

  private constructor(options: YearOptions, installation: MemoryInstallation, driven: Driven) {
    this.options = options;
    this.installation = installation;
    this.driven = driven;
    const archive = this.archiveIn(options.store);
    this.archive = { ...archive, ...options.spoil?.(archive) };
    this.ids = Array.from({ length: options.agents }, (_, n) => agentId(Diary.name, `diary-${n}`));
    const { broker } = installation;
    broker.journal.watch(({ id, event }) => this.record(id, event));
    const before = broker.intercept;
    broker.intercept = (operation) => {
      if (operation.connection === this.trimmer?.id) this.step(operation.kind);
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
    return new Year(options, installation, drive(installation, outgoing!));
  }

  async close(): Promise<void> {
    this.trimmer?.kill();
    await this.driven.close();
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
      // Those that come together share events.
      await this.write(begin, end, part > 0);
      await crash;
    }
    if (time.random() < TRIMMER_KILLS)
      this.doom ??= {
        step: STEPS[Math.floor(time.random() * STEPS.length)]!,
        left: 1 + Math.floor(time.random() * Math.min(STEPS_MAX, this.options.agents)),
      };
    if (day % WALK_DAYS === 0) await this.walk();
    this.brokerBytes.push(bytesOf(this.installation.broker));
    if ((day + 1) % MONTH_DAYS === 0) await this.endMonth((day + 1) / MONTH_DAYS);
  }

  async report(): Promise<YearReport> {
    const { brokerBytes, archived, kills, wrong } = this;
    this.checkFlat();
    for (const [n, id] of this.ids.entries()) {
      await this.checkHistory(id, n < SAMPLED);
      if ((n + 1) % READ_TOLD === 0) this.options.tell?.(`${n + 1} histories were read`);
    }
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

  /** `AT_ONCE` agents at a time, the turns of each one after the other or `together`. */
  private async write(begin: number, end: number, together: boolean): Promise<void> {
    const turns = Array.from({ length: end - begin }, (_, i) => begin + i + 1);
    const waiting = this.ids.values();
    const lane = async (): Promise<void> => {
      for (const { name } of waiting)
        if (together) await Promise.all(turns.map((n) => this.turn(name, n)));
        else for (const n of turns) await this.turn(name, n);
    };
    await this.driven.driver.settle(
      `the answers to turns ${begin + 1} to ${end}`,
      Promise.all(Array.from({ length: AT_ONCE }, lane)),
    );
  }

  private async turn(name: string, n: number): Promise<void> {
    const body = JSON.stringify({ diary: name, n, text: textOf(name, n) });
    const request = requestOf(`${name}-${n}`, body);
    const { status } = await this.installation.request(request, encoder.encode(body));
    if (status >= 300) this.wrong.push(`turn ${n} of ${name} was answered ${status}`);
  }

  /** While turns run: what the host has not stored runs again on its successor. */
  private async crashHost(): Promise<void> {
    this.count("host");
    const isBefore = this.installation.time.random() < 0.5;
    await this.installation.crashAt(isBefore ? "before commit" : "after commit", undefined);
    const { driver } = this.driven;
    await driver.advance(TAKE_OVER_MS);
    await driver.exclusive(() => this.installation.revive());
  }

  private archiveIn(store: ArchiveStore): SegmentArchive {
    const { time } = this.installation;
    const gzip = { zip: gzipSync, unzip: gunzipSync };
    return new SegmentArchive({ store, namespace: "year", time, gzip });
  }

  /** The archive's disk, as the process that trims uses it until it dies. */
  private diskOf(isAlive: () => boolean): ArchiveStore {
    const { store } = this.options;
    const use = async <A>(work: () => Promise<A>): Promise<A> => {
      if (!isAlive()) throw new Error("this process was killed");
      return work();
    };
    return {
      name: store.name,
      put: (key, bytes) =>
        this.waited(
          use(async () => {
            this.step("before archiving");
            await use(() => store.put(key, bytes));
            if (isAlive()) this.step("after archiving");
          }),
        ),
      get: (key, range) => this.waited(use(() => store.get(key, range))),
      list: (prefix) => store.list(prefix),
    };
  }

  /** The disk works in the machine's time, which virtual time waits for. */
  private waited<A>(work: Promise<A>): Promise<A> {
    const over = (): void => void this.working.delete(work);
    this.working.add(work);
    work.then(over, over);
    return work;
  }

  /** Until one has ended that began now. */
  private async walk(): Promise<void> {
    const { time } = this.installation;
    const beganMs = time.nowMs();
    for (;;) {
      this.trimmer ??= await this.startTrimmer();
      const { retention, lastWalkMs } = this.trimmer;
      if (lastWalkMs() >= beganMs + PAUSE_MS) return;
      await this.driven.driver.advance(LOOK_MS);
      while (this.working.size > 0) await Promise.allSettled(this.working);
      const { failed, reason, waiting } = retention.state;
      if (this.trimmer !== undefined && (failed > 0 || waiting !== undefined))
        throw new Error(`the walk failed: ${reason ?? waiting}`);
    }
  }

  /** A step of the process that trims, which may die before it does it. */
  private step(step: Operation["kind"]): void {
    const { trimmer, doom } = this;
    if (trimmer === undefined || step !== doom?.step || --doom.left > 0) return;
    this.doom = undefined;
    this.count(doom.step);
    trimmer.kill();
    this.trimmer = undefined;
  }

  private count(killed: "host" | Step): void {
    this.kills.set(killed, (this.kills.get(killed) ?? 0) + 1);
  }

  private async startTrimmer() {
    const { broker, time } = this.installation;
    const id = `trimmer-${++this.trimmers}`;
    const connection = broker.connect(id);
    const { databases, close } = await openSqliteDatabases({ folder: undefined });
    const leases = makeMemoryLeases(connection);
    let lastWalk = (): number => 0;
    let alive = true;
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
      archive: this.archiveIn(this.diskOf(() => alive)),
      classes: () => (limited === undefined ? [] : [{ className: Diary.name, limits: limited }]),
    });
    retention.start();
    return {
      id,
      retention,
      lastWalkMs: () => lastWalk() * 1_000,
      kill: () => {
        alive = false;
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
      const { journal, snapshots, databases } = this.installation;
      const { image, database } = await rebuildAgent(id, { journal, snapshots, databases });
      database.close();
      states!.push({ seq: last.seq, state: image.state! });
    }
    // The broker keeps records of deliveries for fourteen days; the one in memory counts batches.
    this.installation.broker.deliveries.batches.taken.length = 0;
    globalThis.gc?.();
    const { heapUsed } = process.memoryUsage();
    const mb = (bytes: number): string => (bytes / 2 ** 20).toFixed(1);
    this.options.tell?.(
      `month ${month}: the broker holds ${mb(this.brokerBytes.at(-1)!)} MB, the process ${mb(heapUsed)} MB of heap; ${this.archived} events archived`,
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

/** Some 200 characters, other for each turn. */
const textOf = (name: string, n: number): string =>
  createHash("sha512").update(`${name} ${n}`).digest("base64").repeat(2);

const encoder = new TextEncoder();

/** As GitHub sends it. */
const requestOf = (id: string, body: string): HttpRequest => ({
  method: "POST",
  target: "/diary",
  headers: {
    host: ["localhost"],
    "content-type": ["application/json"],
    "x-github-delivery": [id],
    "x-hub-signature-256": [`sha256=${createHmac("sha256", SECRET).update(body).digest("hex")}`],
  },
  remoteAddress: "127.0.0.1",
  secure: false,
});

const ignore = (): void => undefined;
const silent: LogShape = { debug: ignore, info: ignore, warn: ignore, error: ignore };
