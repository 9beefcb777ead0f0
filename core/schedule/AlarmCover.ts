/**
 * Keeps the broker's timer for the first due schedule (`planAlarms`), and acks the deliveries of
 * timers that fired. `Scheduler` owns the rows, tells it of each change, and runs what is due.
 *
 * 1. **Cover.** Whenever rows are stored, something that the broker keeps comes at or before the
 *    first due time: a pending timer, or a timer that fired and whose delivery is not acked. A
 *    commit that would break this arms a timer before its event is stored.
 * 2. A delivery is acked when its own schedule is settled. The last one that is held is acked only
 *    under another cover: nothing is overdue, and a timer for what is due next is stored.
 * 3. Timers that may have been armed for a due time that no row has any more are cancelled after
 *    the commit, on a best-effort basis. One that is left over wakes the agent once for nothing.
 */
import { AgentDiscarded } from "../errors/errors.ts";
import { messageOf } from "../errors/thrown.ts";
import type { ScheduleRow } from "./ScheduleTable.ts";
import type { AgentTurns } from "../turn/AgentTurns.ts";
import type { BrokerTimers } from "./BrokerTimers.ts";
import { dueOf } from "./dueTimes.ts";
import type { InputHandle } from "../inbox/Inbox.ts";
import { SparseMap, SparseSet } from "../collections/sparse.ts";
import { HeldTriggers } from "../queue/HeldTriggers.ts";
import { covers, earliest, keyOf, planAlarms } from "./planAlarms.ts";

/** A timer that the broker refuses while it is reachable will be refused a moment later, too. */
const TRY_AGAIN_MS = 30_000;

/** The agent whose schedules it covers. */
type CoverAgent = Pick<AgentTurns, "time" | "log" | "waitUntil">;

interface CoverOptions {
  readonly timers: BrokerTimers;
  /** Rows as of the last commit that began, by id. */
  readonly rows: SparseMap<string, ScheduleRow>;
  /** Called for a row that is overdue, possibly more than once. */
  readonly onDue: (id: string, dueMs: number) => void;
}

export class AlarmCover {
  private readonly timers: BrokerTimers;
  private readonly rows: SparseMap<string, ScheduleRow>;
  private readonly onDue: (id: string, dueMs: number) => void;
  /** Due times of the timers that are stored and have not fired, as far as is known, by key. */
  private readonly pending = new SparseMap<string, number>();
  /**
   * Key in `pending` of the row that was due first when the agent woke. The broker has its timer,
   * or an earlier one.
   */
  private assumed: string | undefined;
  /** Ids of the rows for whose due time no timer was armed. */
  private readonly bare = new SparseSet<string>();
  /** Rows whose end or move is not stored. */
  private leaving: ReadonlyArray<ScheduleRow> = [];
  private readonly held = new HeldTriggers();
  /** Keys of `held` whose schedule is settled. */
  private readonly settled = new SparseSet<string>();
  /** True while a timer is being armed, or a row begun, under which the last delivery is acked. */
  private covering = false;

  constructor(
    private readonly agent: CoverAgent,
    { timers, rows, onDue }: CoverOptions,
  ) {
    this.timers = timers;
    this.rows = rows;
    this.onDue = onDue;
  }

  /** Called when the agent wakes: its last owner left it covered (rule 1). */
  assume(): void {
    const first = earliest(this.rows.values());
    if (first === undefined) return;
    this.assumed = keyOf(first.id, dueOf(first)!);
    this.pending.set(this.assumed, dueOf(first)!);
  }

  /**
   * A commit that moves rows: from `gone` (as they were) to `put` (as they are, already among the
   * rows). Call `before` before its event is stored, and `after` after that.
   */
  change(
    put: ReadonlyArray<ScheduleRow>,
    gone: ReadonlyArray<ScheduleRow>,
  ): { readonly before: () => Promise<void>; readonly after: () => void } {
    const armed = gone.filter((row) => !this.bare.delete(row.id));
    const { arm, disarm } = planAlarms({
      put,
      gone: armed,
      rows: this.rows.values(),
      pending: this.pending,
      nowMs: this.agent.time.nowMs(),
    });
    for (const row of disarm) this.pending.delete(keyOf(row.id, dueOf(row)!));
    for (const row of put) if (row !== arm) this.bare.add(row.id);
    if (arm !== undefined) this.bare.delete(arm.id);
    this.leaving = gone;
    return {
      before: async () => {
        if (arm === undefined) return;
        await this.timers.arm(arm);
        this.pending.set(keyOf(arm.id, dueOf(arm)!), dueOf(arm)!);
      },
      after: () => {
        this.leaving = [];
        for (const row of disarm) this.timers.disarm(row);
        for (const row of gone) this.release(keyOf(row.id, dueOf(row) ?? 0));
        this.settle();
      },
    };
  }

  /** A timer was delivered, possibly one that an earlier activation armed. */
  came(key: string, handle: InputHandle): void {
    this.held.hold(key, handle);
    this.settled.delete(key);
    if (this.pending.delete(key) || this.assumed === undefined) return;
    // It may be the earlier timer that was assumed.
    this.pending.delete(this.assumed);
    this.assumed = undefined;
  }

  /** The schedule of the key is settled and stored, or does not exist. */
  release(key: string): void {
    if (!this.held.has(key)) return;
    this.settled.add(key);
    this.settle();
  }

  /** Nothing can be decided now: the delivery returns after `ms`, and covers until then. */
  putOff(key: string, ms: number): void {
    this.settled.delete(key);
    this.held.putOff(key, ms);
    this.settle();
  }

  /** Rule 2. Called whenever a run has ended, or a commit that moved rows is stored. */
  settle(): void {
    const { held, settled } = this;
    if (settled.size === 0) return;
    // A delivery that is not settled covers until it is, and this is called then.
    const last = held.size > settled.size ? undefined : anyOf(settled);
    for (const key of settled) if (key !== last) this.ack(key);
    if (last === undefined || this.covering) return;
    const next = earliest(this.rows.values(), this.leaving);
    const nowMs = this.agent.time.nowMs();
    if (next === undefined || covers(this.pending.values(), dueOf(next)!, nowMs))
      return this.ack(last);
    // This is called again when the row has run.
    if (dueOf(next)! <= nowMs) return this.overdue(next);
    this.covering = true;
    this.agent.waitUntil(this.armNext(next, last));
  }

  /** The agent was destroyed: no row is left, and no timer is needed. */
  destroy(): void {
    this.settled.clear();
    this.held.releaseAll();
    for (const row of this.rows.values()) if (!this.bare.has(row.id)) this.timers.disarm(row);
  }

  /** `key`: of the delivery that covers until the timer is stored. */
  private async armNext(row: ScheduleRow, key: string): Promise<void> {
    const dueMs = dueOf(row)!;
    this.bare.delete(row.id);
    try {
      await this.timers.arm(row);
    } catch (error) {
      if (error instanceof AgentDiscarded) return;
      this.agent.log.error("the timer of the next schedule can't be stored; trying again", {
        schedule: row.id,
        error: messageOf(error),
      });
      this.covering = false;
      return this.putOff(key, TRY_AGAIN_MS);
    }
    this.covering = false;
    // If the row moved meanwhile, its timer may have been cancelled.
    if (dueOf(this.rows.get(row.id)) === dueMs) this.pending.set(keyOf(row.id, dueMs), dueMs);
    this.settle();
  }

  /** The row may turn out to have nothing to run, and be settled within the call. */
  private overdue(row: ScheduleRow): void {
    this.covering = true;
    this.onDue(row.id, dueOf(row)!);
    this.covering = false;
  }

  private ack(key: string): void {
    this.settled.delete(key);
    this.held.release(key);
  }
}

function anyOf<A>(items: Iterable<A>): A | undefined {
  for (const item of items) return item;
  return undefined;
}
