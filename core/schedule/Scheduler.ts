/**
 * The agent's schedules: arms the rows of the table, and runs what is due (`interface.md` §4.4,
 * §4.5; `protocol.md` §6.3 and the table at the top).
 *
 * 1. The table is the truth, live under any SQL: what a commit finds changed in it is armed or
 *    disarmed with that commit. A timer that fires is checked against the table. It runs if and
 *    only if its row exists with that due time, and that is stored.
 * 2. Never early. An agent in memory fires by a timer of its own (`LocalTimers`), to the
 *    millisecond. The broker's timer serves when the agent is not in memory, and only for what is
 *    due first (`AlarmCover`). Whichever fires second finds that the row has moved on.
 * 3. A trigger is acked only when what makes it unnecessary is stored. After a crash before that,
 *    it is delivered again.
 * 4. Each schedule is a turn of its own (`runSchedule`), and never overlaps itself. If it falls due
 *    while it runs, it runs again at the end.
 */
import { messageOf } from "../errors/thrown.ts";
import type { CronShape } from "./Cron.ts";
import type { ScheduleCall } from "./Schedule.ts";
import { ScheduleTable, toSchedule, type ScheduleRow } from "./ScheduleTable.ts";
import type { TimersShape } from "./Timers.ts";
import { slicesOf } from "../time/TimeSlices.ts";
import { AlarmCover } from "./AlarmCover.ts";
import { BrokerTimers } from "./BrokerTimers.ts";
import { methodOf } from "../queue/methodOf.ts";
import { DUE_MS_MAX, dueOf, firstDue, isPutTooFar } from "./dueTimes.ts";
import { KnownSchedules } from "./KnownSchedules.ts";
import { LocalTimers } from "./LocalTimers.ts";
import { newScheduleId } from "./newScheduleId.ts";
import { keyOf, readKey } from "./planAlarms.ts";
import type { InputHandle } from "../inbox/Inbox.ts";
import { toJson } from "../journal/jsonText.ts";
import { rowChanges } from "../journal/RowChanges.ts";
import type { JobPorts } from "../queue/QueueLane.ts";
import { finiteRetry, resolveRetry } from "../retry/retryPolicy.ts";
import { runSchedule, type ScheduleAgent } from "./runSchedule.ts";
import type { CommitTriggers } from "../turn/CommitTriggers.ts";
import { SparseMap, SparseSet } from "../collections/sparse.ts";

export interface SchedulerPorts extends JobPorts {
  readonly timers: TimersShape;
  readonly cron: CronShape;
}

/** Caps the wait for a clock that is slow, so that a corrected clock is noticed soon. */
const PUT_OFF_MS_MAX = 10_000;
const putOffMs = (earlyMs: number): number => Math.min(earlyMs, PUT_OFF_MS_MAX);

export class Scheduler {
  readonly table: ScheduleTable;
  readonly known: KnownSchedules;
  private readonly local: LocalTimers;
  /** Rows whose commit has begun and is not stored. */
  private readonly unstored = new SparseSet<string>();
  private readonly cover: AlarmCover;
  /** Key of the run under way, by schedule. */
  private readonly running = new SparseMap<string, string>();
  private stopped = false;
  private warned = false;

  constructor(
    private readonly agent: ScheduleAgent,
    private readonly ports: SchedulerPorts,
  ) {
    this.table = new ScheduleTable(agent.database, () => agent.ceiling("schedulesMax"));
    this.known = new KnownSchedules(agent, this.table, ports.cron);
    const fire = (id: string, dueMs: number): void => this.fireSoon(id, dueMs);
    this.local = new LocalTimers(agent, fire, (row) => this.arm(row));
    this.cover = new AlarmCover(agent, {
      timers: new BrokerTimers(agent, ports.timers),
      rows: this.known.rows,
      onDue: fire,
    });
  }

  /** Called before any user code. The broker covers what is there already. */
  load(): void {
    this.known.load();
    this.cover.assume();
  }

  isKnown(callback: string): boolean {
    for (const row of this.known.rows.values()) if (row.callback === callback) return true;
    return false;
  }

  /** Called when the agent has started: sets this process's timers. */
  start(): void {
    for (const row of this.known.rows.values()) this.arm(row);
  }

  /** Called when the agent leaves memory: nothing begins any more. The broker's timers remain. */
  stop(): void {
    this.stopped = true;
    this.local.stop();
  }

  /** The agent was destroyed: no row is left, and no timer is needed. */
  destroy(): void {
    this.stop();
    this.cover.destroy();
  }

  /** A table was dropped, or a transaction rolled back. */
  forget(): void {
    this.known.forget();
  }

  /**
   * Registers a schedule, or returns the existing equal one. `ownId`: of one that a redrive
   * puts back. Throws for bad input.
   */
  add({ callback, when, settings }: ScheduleCall, ownId?: string): ScheduleRow {
    const { agent } = this;
    agent.assertRunning();
    const missing = `Unknown scheduled callback "${callback}": not registered on this Scheduler`;
    methodOf(agent.agent, callback, () => new Error(missing));
    if (settings.retry !== undefined) resolveRetry(agent.options.retry, settings.retry);
    const row: ScheduleRow = {
      id: ownId ?? newScheduleId(agent.time),
      callback,
      payload: toJson(settings.payload, "schedule: the payload"),
      type: when.type,
      time: null,
      delayInSeconds: when.type === "delayed" ? when.delayInSeconds : null,
      cron: when.type === "cron" ? when.cron : null,
      intervalSeconds: when.type === "interval" ? when.intervalSeconds : null,
      running: false,
      retryOptions:
        settings.retry === undefined ? null : JSON.stringify(finiteRetry(settings.retry)),
      dueMs: when.type === "scheduled" ? when.atMs : null,
      timezone: settings.timezone ?? null,
      misfire: settings.misfire ?? "latest",
      startedMs: null,
    };
    const dueMs = firstDue(row, agent.time.nowMs(), this.ports.cron);
    if (!(dueMs <= DUE_MS_MAX))
      throw new RangeError(
        `Invalid job time: ${dueMs}. schedule: the latest time is the end of the year 9999`,
      );
    const oneShot = when.type === "scheduled" || when.type === "delayed";
    if (oneShot) this.warnOfRepetition(callback, settings.idempotent);
    const idempotent = settings.idempotent ?? !oneShot;
    // A one-shot that runs does not count: its callback may schedule the next.
    const same = idempotent
      ? this.table.same(row).find(({ id }) => !(oneShot && this.running.has(id)))
      : undefined;
    if (same !== undefined) return same;
    const due = { ...row, dueMs, time: Math.ceil(dueMs / 1000) };
    this.table.insert(due, idempotent);
    this.touched(due.id);
    agent.emit("schedule:create", { callback, id: row.id });
    return due;
  }

  cancel(id: string): boolean {
    this.agent.assertRunning();
    const row = this.table.get(id);
    if (row === undefined || !this.table.remove(id)) return false;
    this.touched(id);
    this.agent.emit("schedule:cancel", { callback: row.callback, id });
    return true;
  }

  /** A timer's message was delivered. */
  offer(key: string, handle: InputHandle): void {
    const [id, dueMs] = readKey(key);
    // The broker's clock is ahead of ours (rule 2).
    const earlyMs = dueMs - this.agent.time.nowMs();
    if (earlyMs > 0) return handle.nak(putOffMs(earlyMs));
    this.cover.came(key, handle);
    this.fireSoon(id, dueMs);
    // Rows that were due in more than a day when they were armed have no timer here.
    for (const row of this.known.rows.values())
      if (row.id !== id && (dueOf(row) ?? Infinity) <= this.agent.time.nowMs())
        this.fireSoon(row.id, dueOf(row)!);
  }

  /** What the commit has to do for schedules. Reads the table as `KnownSchedules.take`. */
  takeTriggers(): CommitTriggers | undefined {
    this.table.showRunning();
    const taken = this.known.take();
    if (taken === undefined) return undefined;
    const { changed, put, gone, del } = taken;
    for (const row of gone) this.local.disarm(row.id);
    const schedules = rowChanges(changed.map(toSchedule), del);
    if (schedules === undefined) return undefined;
    // No due time changes: the timers stay as they are.
    if (put.length === 0 && gone.length === 0) return { schedules, before: async () => undefined };
    for (const row of put) this.unstored.add(row.id);
    const { before, after } = this.cover.change(put, gone);
    return {
      schedules,
      before,
      after: () => {
        this.unstored.clear();
        after();
        for (const row of put) this.stored(row);
      },
    };
  }

  private stored(row: ScheduleRow): void {
    const dueMs = dueOf(row);
    if (dueMs === undefined) return;
    // The clock was set back since the trigger came. The agent may leave memory before the row is
    // due, so the trigger has to come again.
    const earlyMs = dueMs - this.agent.time.nowMs();
    if (earlyMs > 0) this.cover.putOff(keyOf(row.id, dueMs), putOffMs(earlyMs));
    this.arm(row);
  }

  /** Sets this process's timer, or makes the schedule due anew if its time was a wrong clock's. */
  private arm(row: ScheduleRow): void {
    const { agent, ports, table } = this;
    if (this.stopped) return;
    if (this.running.has(row.id) || !isPutTooFar(row, agent.time.nowMs(), ports.cron))
      return this.local.arm(row);
    agent.log.warn("the clock was set back; a schedule is due anew, by the present time", {
      schedule: row.id,
      callback: row.callback,
      was: new Date(row.dueMs!).toISOString(),
    });
    const turn = agent.newTurn({ kind: "schedule", type: row.callback });
    const write = (): void => {
      const now = table.get(row.id);
      if (now === undefined || !isPutTooFar(now, agent.time.nowMs(), ports.cron)) return;
      table.setDue(row.id, firstDue(now, agent.time.nowMs(), ports.cron));
      this.touched(row.id);
    };
    agent.run(turn, write).catch((error: unknown) => {
      if (!agent.discarded) agent.abort(`a schedule can't be made due anew: ${messageOf(error)}`);
    });
  }

  /** Fires at once, unless very many schedules are due together. */
  private fireSoon(id: string, dueMs: number): void {
    slicesOf(this.agent.time).run(() => this.fire(id, dueMs));
  }

  /** A timer says that the schedule is due now (rule 1). */
  private fire(id: string, dueMs: number): void {
    if (this.agent.discarded || this.stopped) return;
    const key = keyOf(id, dueMs);
    const current = this.running.get(id);
    if (current === key) return;
    const row = this.known.read(id, current !== undefined);
    if (row === "unreadable") return this.cover.putOff(key, UNREADABLE_MS);
    if (row === undefined || dueOf(row) !== dueMs)
      return this.agent.committer.afterFence(() => this.cover.release(key));
    // The commit that stores the row fires it.
    if (dueOf(this.known.rows.get(id)) !== dueMs || this.unstored.has(id)) return;
    // Rule 4: else the end of the current run fires it.
    if (current === undefined) this.begin(row, dueMs);
  }

  private begin(row: ScheduleRow, dueMs: number): void {
    const { agent, running } = this;
    const key = keyOf(row.id, dueMs);
    const free = (): void => {
      if (running.get(row.id) === key) running.delete(row.id);
    };
    running.set(row.id, key);
    const run = runSchedule(agent, {
      row,
      dueMs,
      key,
      table: this.table,
      cron: this.ports.cron,
      deadLetter: this.ports.deadLetter,
      touched: () => this.touched(row.id),
      onHung: free,
    });
    agent.waitUntil(
      run
        .then(() => {
          free();
          this.cover.release(key);
          this.fireAgain(row.id);
          this.cover.settle();
        })
        .catch((error: unknown) => {
          if (!agent.discarded)
            agent.abort(`a schedule's run could not be finished: ${messageOf(error)}`);
        }),
    );
  }

  /** The schedule may have fallen due while it ran. */
  private fireAgain(id: string): void {
    const dueMs = dueOf(this.known.rows.get(id));
    if (dueMs !== undefined && dueMs <= this.agent.time.nowMs()) this.fire(id, dueMs);
  }

  /** Warns once for each agent in memory. */
  private warnOfRepetition(callback: string, idempotent: boolean | undefined): void {
    if (this.warned || idempotent !== undefined || this.agent.turn().cause.kind !== "start") return;
    this.warned = true;
    this.agent.log.warn(
      "schedule() of a single run in onStart adds one at every wake; pass { idempotent: true } to have it once",
      { callback },
    );
  }

  private touched(id: string): void {
    this.known.touched(id);
    this.agent.touch();
  }
}

/** Pause before a table that users' SQL broke is read again for what is due. */
const UNREADABLE_MS = 30_000;
