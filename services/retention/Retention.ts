/**
 * Trims the journals of all agents to what their classes keep (`core/retention`). Walks through the
 * agents again and again, at a bounded rate. Run by `agents retention` and `agents dev`.
 *
 * 1. One process works at a time: the one that holds the lease `retention`. The lease only saves
 *    work. Two that trim one agent at once lose nothing (`core/retention/trimAgent`), also when one
 *    of them was frozen for a day.
 * 2. An agent that can't be trimmed is passed over, counted and named in the log. It is tried again
 *    in the next walk.
 * 3. Nothing is remembered between walks or processes: what is to be done follows from what is
 *    stored.
 * 4. A broker or an archive that is away or full ends the walk. The next one begins after the usual
 *    pause. Until then nothing is trimmed.
 * 5. With an archive several agents are trimmed at once, so that they share its segments.
 * 6. The times of events are the broker's. If this machine's clock differs from the broker's by
 *    more than a day, ages follow the broker's clock: with a clock that is years ahead, everything
 *    would be trimmed. A clock that jumps during a walk has no effect on it.
 */
import { BrokerUnavailable } from "../../core/bus/Bus.ts";
import { ArchiveUnavailable } from "../../core/retention/Archive.ts";
import type { JournalEntry } from "../../core/journal/Journal.ts";
import type { LeasesShape } from "../../core/lease/Leases.ts";
import { OwnLease } from "../../core/lease/OwnLease.ts";
import {
  exceeds,
  type HistoryLimits,
  type JournalSize,
} from "../../core/retention/HistoryLimits.ts";
import {
  forgetErased,
  isErasedNow,
  trimAgent,
  type TrimPorts,
} from "../../core/retention/trimAgent.ts";
import type { RetentionMetrics, RetentionState } from "../../core/retention/RetentionMetrics.ts";
import type { LogShape } from "../../core/telemetry/Log.ts";
import { interval } from "../../core/time/interval.ts";
import type { TimeShape } from "../../core/time/Time.ts";
import { addressKey, type AgentId, type Sequence } from "../../schemas/Address.ts";
import { settlesWithin } from "../../core/time/settlesWithin.ts";
import { messageOf } from "../../core/errors/thrown.ts";

const RETENTION_KEY = "retention";

/** From the end of a walk to the begin of the next. Small installations are walked in a moment. */
const PAUSE_MS = 60_000;
/** Most agents are only looked at: one or two requests to the broker each. */
const LOOKS_PER_SECOND = 500;
/** Removed events a second. Each cost a replay here, and a removal on each copy of the stream. */
const EVENTS_PER_SECOND = 2_000;
/** Rule 5. Each holds its agent's image and the events that go. */
const LOOKS_AT_ONCE = 16;
/** Some 20 MB of addresses. Those past it are looked at in each walk. */
const FORGOTTEN_MAX = 100_000;
/** Rule 6. The smallest unit of limits; an hour more or less does no harm. */
const CLOCK_MS_MAX = 24 * 3_600_000;
/** Less than orchestrators allow. A request to an archive that does not answer takes a minute. */
const STOP_MS_MAX = 5_000;
/** The pauses of the rates are gathered to at least this long. */
const REST_MS_MIN = 50;

/** What `Retention` knows of the module. */
export interface ClassHistory {
  readonly className: string;
  readonly limits: HistoryLimits;
}

export interface RetentionServices extends TrimPorts {
  readonly leases: LeasesShape;
  readonly time: TimeShape;
  readonly log: LogShape;
  readonly metrics: RetentionMetrics;
  /** Rule 6: the broker's clock. Absent: this machine's is right. Rejects as ports do. */
  readonly brokerMs?: () => Promise<number>;
  /** Unique per process life. */
  readonly id: string;
  /** Those classes that have limits. A function, because `agents dev` replaces its module. */
  readonly classes: () => ReadonlyArray<ClassHistory>;
}

export class Retention {
  private readonly ownLease: OwnLease;
  private readonly stopped = new AbortController();
  private cancelRenewal = (): void => undefined;
  private running: Promise<void> = Promise.resolve();
  /** Ends each pause that is under way: several agents are trimmed at once (rule 5). */
  private readonly resting = new Set<() => void>();
  private owedMs = 0;
  private failedLast = 0;
  private failedNow = 0;
  private reason: string | undefined;
  private waiting: string | undefined;
  private lastWalkMs = 0;
  /** Rule 6. */
  private clock = { wallMs: 0, monotonicMs: 0 };
  /**
   * Agents that were erased, and of which nothing is left. Empty while another process leads, which
   * may archive a later life of theirs.
   */
  private readonly forgotten = new Set<string>();

  constructor(private readonly services: RetentionServices) {
    const { leases, log, time, id } = services;
    this.ownLease = new OwnLease({ leases, log, time, key: RETENTION_KEY, value: id });
    services.metrics.leads(() => (this.ownLease.isHeld ? 1 : 0));
    services.metrics.untrimmed(() => this.failedLast);
    services.metrics.lastWalk(() => this.lastWalkMs / 1000);
  }

  get state(): RetentionState {
    const { failedLast: failed, reason, waiting } = this;
    return { leads: this.ownLease.isHeld, failed, reason, waiting };
  }

  start(): void {
    const { time, leases } = this.services;
    void this.ownLease.renew();
    this.cancelRenewal = interval(time, leases.ttlMs / 3, () => this.ownLease.renew());
    this.running = this.run();
  }

  async stop(): Promise<void> {
    this.stopped.abort();
    this.cancelRenewal();
    for (const wake of this.resting) wake();
    // What is left of the walk ends like that of a process that is killed.
    await settlesWithin(this.services.time, STOP_MS_MAX, this.running);
    await this.ownLease.release();
  }

  private async run(): Promise<void> {
    const { log } = this.services;
    while (!this.stopped.signal.aborted) {
      if (this.ownLease.isHeld)
        await this.walk().catch((error: unknown) => {
          const isAway = error instanceof BrokerUnavailable || error instanceof ArchiveUnavailable;
          if (error instanceof ArchiveUnavailable) {
            this.waiting = error.message;
            this.services.metrics.archiveFailures();
          }
          log[isAway ? "warn" : "error"]("a walk through the journals ended early", {
            error: isAway || !(error instanceof Error) ? String(error) : error.stack,
          });
        });
      if (!this.ownLease.isHeld) this.forgotten.clear();
      // A process that does not lead looks again as soon as the lease may be free.
      await this.rest(this.ownLease.isHeld ? PAUSE_MS : this.services.leases.ttlMs);
    }
  }

  /** One pass through all agents of classes that have limits. Rejects with `BrokerUnavailable`. */
  private async walk(): Promise<void> {
    this.failedNow = 0;
    await this.readClock();
    const looks = new Set<Promise<void>>();
    const first = new AbortController();
    const fail = (error: unknown): void => first.abort(error);
    try {
      for (const { className, limits } of this.services.classes())
        for await (const entry of this.services.journal.list(className)) {
          if (this.isOver || first.signal.aborted) break;
          const look = this.look(entry, limits).catch(fail);
          looks.add(look);
          void look.finally(() => looks.delete(look));
          await (looks.size < this.looksAtOnce ? this.pace(1000 / LOOKS_PER_SECOND) : look);
        }
    } finally {
      await Promise.all(looks);
    }
    if (first.signal.aborted) throw first.signal.reason;
    if (this.isOver) return;
    this.waiting = undefined;
    this.failedLast = this.failedNow;
    if (this.failedLast === 0) this.reason = undefined;
    this.lastWalkMs = this.services.time.nowMs();
  }

  /** Rule 6. */
  private async readClock(): Promise<void> {
    const { time, brokerMs, log } = this.services;
    const ownMs = time.nowMs();
    const rightMs = (await brokerMs?.()) ?? ownMs;
    const isWrong = Math.abs(ownMs - rightMs) > CLOCK_MS_MAX;
    this.clock = { wallMs: isWrong ? rightMs : ownMs, monotonicMs: time.monotonicMs() };
    if (isWrong)
      log.warn(
        "this machine's clock differs from the broker's; history is trimmed by the broker's",
        { own: new Date(ownMs).toISOString(), broker: new Date(rightMs).toISOString() },
      );
  }

  private readonly nowMs = (): number =>
    this.clock.wallMs + this.services.time.monotonicMs() - this.clock.monotonicMs;

  private get looksAtOnce(): number {
    return this.services.archive === undefined ? 1 : LOOKS_AT_ONCE;
  }

  private get isOver(): boolean {
    return this.stopped.signal.aborted || !this.ownLease.isHeld;
  }

  private async look(entry: JournalEntry, limits: HistoryLimits): Promise<void> {
    try {
      if (entry.events === 1) return await this.forget(entry.id);
      this.forgotten.delete(addressKey(entry.id)); // it lives again
      await this.trim(entry, limits);
    } catch (error) {
      if (error instanceof BrokerUnavailable || error instanceof ArchiveUnavailable) throw error;
      // Rule 2.
      this.failedNow++;
      const { log, metrics } = this.services;
      metrics.failures();
      this.reason = `${addressKey(entry.id)}: ${messageOf(error)}`;
      log.error("an agent's journal could not be trimmed; all of it is kept", {
        ...entry.id,
        error: this.reason,
      });
    }
  }

  /** Once while this process leads: reading the indexes of an archive is work. */
  private async forget(id: AgentId): Promise<void> {
    const key = addressKey(id);
    if (this.forgotten.has(key) || !(await isErasedNow(this.services.journal, id))) return;
    await forgetErased(this.services, id);
    if (this.forgotten.size < FORGOTTEN_MAX) this.forgotten.add(key);
  }

  private async trim({ id, events: listed }: JournalEntry, limits: HistoryLimits): Promise<void> {
    const { journal, metrics, log } = this.services;
    const ports = { ...this.services, time: { nowMs: this.nowMs } };
    const oldest = await journal.first(id);
    if (oldest === undefined) return;
    const { storedMs: firstStoredMs } = oldest;
    if (limits.bytes === undefined)
      if (!exceeds(limits, { events: listed, firstStoredMs, bytes: 0 }, this.nowMs())) return;
    // A page of the list may be an hour old.
    const count = await this.count(id);
    const bytes = limits.bytes === undefined ? undefined : await this.weigh(id);
    const size: JournalSize = { events: count, firstStoredMs, bytes };
    if (!exceeds(limits, size, this.nowMs())) return;
    let { events } = size;
    let first = oldest.seq;
    let left = bytes;
    for (;;) {
      const outcome = await trimAgent(id, ports, { limits, first, events, bytes: left });
      if (outcome._tag !== "Trimmed") return;
      metrics.trimmed(outcome.events, outcome.bytes);
      log.debug("a journal was trimmed", { ...id, events: outcome.events, bytes: outcome.bytes });
      await this.pace((outcome.events * 1000) / EVENTS_PER_SECOND);
      if (!outcome.more || this.isOver) return;
      ({ first } = outcome);
      events -= outcome.events;
      if (left !== undefined) left -= outcome.bytes;
    }
  }

  private async count({ class: className, name }: AgentId): Promise<number> {
    for await (const { events } of this.services.journal.list(className, name)) return events;
    return 0;
  }

  /** The broker does not tell: all of it is read. */
  private async weigh(id: JournalEntry["id"]): Promise<number> {
    let bytes = 0;
    for await (const { data } of this.services.journal.read(id, { fromSeq: 1 as Sequence }))
      bytes += data.length;
    return bytes;
  }

  private async pace(ms: number): Promise<void> {
    this.owedMs += ms;
    if (this.owedMs < REST_MS_MIN) return;
    const owed = this.owedMs;
    this.owedMs = 0;
    await this.rest(owed);
  }

  private rest(ms: number): Promise<void> {
    return new Promise((resolve) => {
      const cancel = this.services.time.after(ms, () => wake());
      const wake = (): void => {
        cancel();
        this.resting.delete(wake);
        resolve();
      };
      this.resting.add(wake);
      if (this.stopped.signal.aborted) wake();
    });
  }
}
