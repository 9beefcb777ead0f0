/**
 * The agent's schedules: what the table says, kept armed and run (`interface.md` §4.4, §4.5;
 * `protocol.md` §6.3 and the table at the top).
 *
 * 1. The table is the truth, live under any SQL: what a commit finds changed in it is armed or disarmed
 *    with that commit. A timer that fires is checked against the table: it runs iff its row exists with that
 *    due time.
 * 2. Never early. An agent in memory fires by a timer of its own, to the millisecond; the broker's
 *    timer is for when it is not. Whichever comes second finds the run's key done.
 * 3. A run, what it wrote, and what is due next are one commit: a one-shot's row goes, a cron's moves on
 *    from now, an interval's from the end of its run. Nothing that recurs overlaps itself.
 * 4. An interval that runs past `hungScheduleTimeoutSeconds` is declared hung: its mark is cleared and it
 *    is due again; the old callback can't be stopped, and settles nothing any more.
 */
import { encodeEnvelope } from "../../schemas/InboxEnvelope.ts";
import { AGENT_STATIC_OPTIONS_DEFAULT, type RetryOptions } from "../agent/Agent.ts";
import type { CronShape } from "../schedule/Cron.ts";
import { INTERVAL_SECONDS_MAX, type ScheduleCall } from "../schedule/Schedule.ts";
import {
  SCHEDULE_TABLE,
  ScheduleTable,
  toSchedule,
  type ScheduleRow,
} from "../schedule/ScheduleTable.ts";
import type { TimersShape } from "../schedule/Timers.ts";
import type { ActiveAgent } from "./ActiveAgent.ts";
import { methodOf } from "./callbacks.ts";
import { dueOf, firstDue, nextDue } from "./dueTimes.ts";
import type { InputHandle } from "./Mailbox.ts";
import { deadInput, messageOf, toJson, type JobPorts } from "./QueueLane.ts";
import { resolveRetry } from "./retryPolicy.ts";
import { runJob } from "./runJob.ts";
import { HeldTriggers, rowChanges, type CommitTriggers } from "./Triggers.ts";

export interface SchedulerPorts extends JobPorts {
  readonly timers: TimersShape;
  readonly cron: CronShape;
}

export class Scheduler {
  readonly table: ScheduleTable;
  private readonly agent: ActiveAgent;
  private readonly ports: SchedulerPorts;
  /** Rows as of the last commit (or of activation), and so what is armed. */
  private known = new Map<string, ScheduleRow>();
  private readonly local = new Map<string, () => void>();
  private readonly held = new HeldTriggers();
  private readonly running = new Set<string>();
  private changed = false;

  constructor(agent: ActiveAgent, ports: SchedulerPorts) {
    this.agent = agent;
    this.ports = ports;
    this.table = new ScheduleTable(agent.database);
  }

  /** When the agent has started: its rows are armed already, in the broker; here they are armed too. */
  start(): void {
    this.known = new Map(this.table.all().map((row) => [row.id, row]));
    for (const row of this.known.values()) this.armLocally(row);
  }

  /** It leaves memory: the broker's timers remain. */
  stop(): void {
    for (const cancel of this.local.values()) cancel();
    this.local.clear();
  }

  /** The agent was destroyed: no row is left, and no timer should be. */
  destroy(): void {
    this.stop();
    this.held.releaseAll();
    for (const id of this.known.keys()) this.disarm(id);
  }

  /** A table was dropped, or a transaction rolled back. */
  forget(): void {
    this.table.forget();
    this.changed = true;
  }

  /** The table may have changed: look at it with the next commit. */
  look(): void {
    this.changed = true;
  }

  /** Registers a schedule, or gives the one of the same meaning. Throws what makes it impossible. */
  add({ callback, when, settings }: ScheduleCall): ScheduleRow {
    const { agent } = this;
    const missing = () =>
      new Error(`Unknown scheduled callback "${callback}": not registered on this Scheduler`);
    methodOf(agent.agent, callback, missing);
    if (settings.retry !== undefined) resolveRetry(agent.options.retry, settings.retry);
    const row: ScheduleRow = {
      id: newId(agent),
      callback,
      payload: toJson(settings.payload),
      type: when.type,
      time: null,
      delayInSeconds: when.type === "delayed" ? when.delayInSeconds : null,
      cron: when.type === "cron" ? when.cron : null,
      intervalSeconds: when.type === "interval" ? when.intervalSeconds : null,
      running: false,
      retryOptions: settings.retry === undefined ? null : JSON.stringify(settings.retry),
      dueMs: when.type === "scheduled" ? when.atMs : null,
      timezone: settings.timezone ?? null,
      misfire: settings.misfire ?? "latest",
      startedMs: null,
    };
    const dueMs =
      when.type === "scheduled" ? when.atMs : firstDue(row, agent.time.nowMs(), this.ports.cron);
    const idempotent = settings.idempotent ?? (when.type === "cron" || when.type === "interval");
    const same = idempotent ? this.table.same(row) : undefined;
    if (same !== undefined) return same;
    const due = { ...row, dueMs, time: Math.ceil(dueMs / 1000) };
    this.table.insert(due, idempotent);
    this.touched();
    agent.emit("schedule:create", { callback, id: row.id });
    return due;
  }

  cancel(id: string): boolean {
    const row = this.table.get(id);
    if (row === undefined || !this.table.remove(id)) return false;
    this.touched();
    this.agent.emit("schedule:cancel", { callback: row.callback, id });
    return true;
  }

  /** A trigger came from the inbox. */
  offer(key: string, handle: InputHandle): void {
    const [id, dueMs] = readKey(key);
    this.held.hold(key, handle);
    this.fire(id, dueMs);
  }

  /** This commit's share (`Triggers`). Reads the table; may write to it (due times of rows that users changed). */
  takeTriggers(): CommitTriggers | undefined {
    if (!this.changed) return undefined;
    this.changed = false;
    const before = this.known;
    const rows = new Map<string, ScheduleRow>();
    const put: ScheduleRow[] = [];
    for (const found of this.readTable()) {
      const row = this.settleDue(found, before.get(found.id));
      rows.set(row.id, row);
      if (dueOf(row) !== dueOf(before.get(row.id))) put.push(row);
    }
    const del = [...before.keys()].filter((id) => !rows.has(id));
    this.known = rows;
    for (const id of del) this.disarmLocally(id);
    const changes = rowChanges(put.map(toSchedule), del);
    if (changes === undefined) return undefined;
    const armed = put.filter((row) => dueOf(row) !== undefined);
    return {
      schedules: changes,
      before: async () => {
        await Promise.all(armed.map((row) => this.arm(row)));
      },
      after: () => {
        for (const id of del) this.disarm(id);
        for (const row of put) if (this.known.get(row.id) === row) this.armLocally(row);
      },
    };
  }

  /** A table that users' SQL has made unreadable is theirs to mend; the agent goes on as it was armed. */
  private readTable(): ReadonlyArray<ScheduleRow> {
    try {
      return this.table.all();
    } catch (error) {
      this.agent.log.error(`${SCHEDULE_TABLE} can't be read; its schedules stay as they were`, {
        error: messageOf(error),
      });
      return [...this.known.values()];
    }
  }

  /** What a row is due at, when the user's SQL made or changed it. */
  private settleDue(row: ScheduleRow, before: ScheduleRow | undefined): ScheduleRow {
    const { agent, ports } = this;
    const moved =
      before === undefined
        ? row.dueMs === null && row.time === null
        : row.cron !== before.cron ||
          row.timezone !== before.timezone ||
          row.intervalSeconds !== before.intervalSeconds ||
          row.delayInSeconds !== before.delayInSeconds;
    if (!moved || (before !== undefined && row.time !== before.time)) return row;
    try {
      const dueMs = firstDue(row, agent.time.nowMs(), ports.cron);
      this.table.setDue(row.id, dueMs);
      return { ...row, dueMs, time: Math.ceil(dueMs / 1000) };
    } catch (error) {
      agent.log.error("a schedule's row can't be armed; it stays, unarmed", {
        schedule: row.id,
        error: messageOf(error),
      });
      return { ...row, dueMs: null, time: null };
    }
  }

  private arm(row: ScheduleRow): Promise<void> {
    const dueMs = dueOf(row)!;
    const { agent, ports } = this;
    const envelope = encodeEnvelope({
      key: keyOf(row.id, dueMs),
      kind: "schedule",
      type: row.callback,
      time: dueMs,
    });
    return ports.timers.arm(agent.id, row.id, dueMs, envelope);
  }

  /** One that fires all the same finds no row. */
  private disarm(id: string): void {
    void this.ports.timers.disarm(this.agent.id, id).catch(() => undefined);
  }

  private armLocally(row: ScheduleRow): void {
    this.disarmLocally(row.id);
    const dueMs = dueOf(row);
    if (dueMs === undefined || this.agent.discarded) return;
    const { time } = this.agent;
    const waitMs = dueMs - time.nowMs();
    // Beyond this the agent will hardly be in memory still, and the broker's timer serves.
    if (waitMs > LOCAL_TIMER_MS_MAX) return;
    const cancel = time.after(Math.max(0, waitMs), () => {
      this.local.delete(row.id);
      // Timers of the machine may be early by a fraction, and its clock may have been set back.
      if (time.nowMs() < dueMs) this.armLocally(row);
      else this.fire(row.id, dueMs);
    });
    this.local.set(row.id, cancel);
  }

  private disarmLocally(id: string): void {
    this.local.get(id)?.();
    this.local.delete(id);
  }

  /** Rule 1. */
  private fire(id: string, dueMs: number): void {
    const key = keyOf(id, dueMs);
    if (this.running.has(key) || this.agent.discarded) return;
    const row = this.table.get(id);
    if (row === undefined || dueOf(row) !== dueMs) return this.held.release(key);
    this.running.add(key);
    this.agent.waitUntil(
      this.run(row, key)
        .then(() => this.held.release(key))
        .catch((error: unknown) => {
          if (!this.agent.discarded)
            this.agent.abort(`a schedule's run could not be finished: ${messageOf(error)}`);
        })
        .finally(() => this.running.delete(key)),
    );
  }

  private async run(row: ScheduleRow, key: string): Promise<void> {
    const { agent, ports } = this;
    const { id, callback } = row;
    const dueMs = dueOf(row)!;
    const lateMs = agent.time.nowMs() - dueMs;
    const retry = resolveRetry(
      agent.options.retry,
      row.retryOptions === null ? undefined : (JSON.parse(row.retryOptions) as RetryOptions),
    );
    const missed = row.misfire === "skip" && lateMs > MISFIRE_AFTER_MS;
    const startedMs = agent.time.nowMs();
    const watch = row.type === "interval" ? this.watchHung(row, startedMs) : undefined;
    const missing = () => new Error(`this.${callback} is not a function`);
    await runJob(agent, {
      kind: "schedule",
      key,
      callback,
      payload: row.payload,
      retry,
      run: () => {
        if (missed) return undefined;
        agent.emit("schedule:execute", { callback, id });
        // Seen by others only if the run is long enough to be committed in parts.
        this.table.setRunning(id, startedMs);
        return methodOf(
          agent.agent,
          callback,
          missing,
        )(row.payload === null ? undefined : (JSON.parse(row.payload) as unknown), toSchedule(row));
      },
      settle: () => {
        watch?.cancel();
        if (watch?.hung) return;
        this.settle(row, dueMs);
      },
      bury: (reason) =>
        ports.bury(deadInput("schedule", callback, key, row.payload, agent.time.nowMs()), reason),
      onRetry: (attempt) =>
        agent.emit("schedule:retry", { callback, id, attempt, maxAttempts: retry.maxAttempts }),
      onFailed: (error, attempts) =>
        agent.emit("schedule:error", { callback, id, error: messageOf(error), attempts }),
    });
  }

  /** Rule 3, unless the callback itself cancelled or moved it. */
  private settle(row: ScheduleRow, dueMs: number): void {
    const now = this.table.get(row.id);
    if (now === undefined) return this.touched();
    if (now.running) this.table.setRunning(row.id, null);
    if (dueOf(now) === dueMs) {
      const next = nextDue(now, dueMs, this.agent.time.nowMs(), this.ports.cron);
      if (next === undefined) this.table.remove(row.id);
      else this.table.setDue(row.id, next);
    }
    this.touched();
  }

  /** Rule 4. */
  private watchHung(row: ScheduleRow, startedMs: number): { cancel: () => void; hung: boolean } {
    const { agent } = this;
    const {
      hungScheduleTimeoutSeconds: seconds = AGENT_STATIC_OPTIONS_DEFAULT.hungScheduleTimeoutSeconds,
    } = agent.options;
    const watch = { cancel: () => undefined as void, hung: false };
    watch.cancel = agent.time.after(seconds * 1000, () => {
      if (agent.discarded) return;
      watch.hung = true;
      agent.log.warn("an interval's run is hung; it is due again", {
        schedule: row.id,
        callback: row.callback,
      });
      agent.emit("schedule:hung", { callback: row.callback, id: row.id, startedMs });
      this.table.setRunning(row.id, null);
      this.table.setDue(
        row.id,
        agent.time.nowMs() + (row.intervalSeconds ?? INTERVAL_SECONDS_MAX) * 1000,
      );
      this.touched();
    });
    return watch;
  }

  private touched(): void {
    this.changed = true;
    this.agent.touch();
  }
}

/** A day: a timer costs little, and the agent seldom stays in memory longer without one. */
const LOCAL_TIMER_MS_MAX = 24 * 3600 * 1000;
/** Later than this a run was missed, not late: the broker's timers are within 300 ms. */
const MISFIRE_AFTER_MS = 5_000;

const keyOf = (id: string, dueMs: number): string => `schedule:${id}:${dueMs}`;

function readKey(key: string): [id: string, dueMs: number] {
  const at = key.lastIndexOf(":");
  return [key.slice("schedule:".length, at), Number(key.slice(at + 1))];
}

/** Like the column's default: 18 hex digits. */
function newId(agent: ActiveAgent): string {
  const [row] = agent.database.query("SELECT lower(hex(randomblob(9)))", []).rows;
  return String(row![0]);
}
