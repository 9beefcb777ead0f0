/**
 * Which of an agent's schedules have a timer at the broker: not each, but always the one that is
 * due first. A timer wakes the agent, and an agent in memory keeps time itself; so ten schedules
 * cost one message, and not ten.
 *
 * 1. **Cover.** Whenever rows are stored, something that the broker keeps comes at or before the
 *    first due time: a timer that is pending, or one that fired and whose delivery is not acked. A
 *    commit that would break this arms a timer before its event is stored.
 * 2. A delivery is acked when its own schedule is settled and, being the last that is held, only
 *    under another cover: nothing is overdue, and a timer for what is due next is stored.
 * 3. Only timers of the future count for a commit: one that has fired may have been delivered to
 *    somebody else by now.
 * 4. Taken back is, best effort and after its commit, what may have been armed for a due time that
 *    a row has no more. One that is left over wakes the agent once for nothing.
 *
 * Fed by `Scheduler`, which owns the rows; feeds `Alarms`.
 */
import { AgentDiscarded, messageOf } from "../errors/errors.ts";
import type { ScheduleRow } from "./ScheduleTable.ts";
import type { AgentTurns } from "../turn/AgentTurns.ts";
import { keyOf, type Alarms } from "./Alarms.ts";
import { DUE_MS_MAX, dueOf } from "./dueTimes.ts";
import type { InputHandle } from "../inbox/Inbox.ts";
import { SparseMap, SparseSet } from "../collections/sparse.ts";
import { HeldTriggers } from "../queue/HeldTriggers.ts";

/** What can't be stored, while the broker is there, will hardly be a moment later. */
const TRY_AGAIN_MS = 30_000;

/** The agent whose schedules it covers. */
export type CoverAgent = Pick<AgentTurns, "time" | "log" | "waitUntil">;

export class AlarmCover {
  private readonly agent: CoverAgent;
  private readonly alarms: Alarms;
  /** Rows as of the last commit that began, by id. */
  readonly known: SparseMap<string, ScheduleRow>;
  /** Begins what is due, unless it runs. */
  readonly fire: (id: string, dueMs: number) => void;
  /** Timers that are stored and have not come, as far as is known: due time by key. */
  private readonly pending = new SparseMap<string, number>();
  /**
   * Key in `pending` of the row that was due first when the agent woke: its timer is there, or an
   * earlier one.
   */
  private assumed: string | undefined;
  /** Ids of rows for whose due time no timer was armed. */
  private readonly bare = new SparseSet<string>();
  /** Rows whose end or move is not stored. */
  private leaving: ReadonlyArray<ScheduleRow> = [];
  private readonly held = new HeldTriggers();
  /** Of those held: whose schedule is settled. */
  private readonly settled = new SparseSet<string>();
  /** Rule 2 is being seen to. */
  private arming = false;

  constructor(agent: CoverAgent, alarms: Alarms, rows: Pick<AlarmCover, "known" | "fire">) {
    this.agent = agent;
    this.alarms = alarms;
    this.known = rows.known;
    this.fire = rows.fire;
  }

  /** The agent has woken: who had it before left it covered (rule 1). */
  assume(): void {
    const first = earliest(this.known.values());
    if (first === undefined) return;
    this.assumed = keyOf(first.id, dueOf(first)!);
    this.pending.set(this.assumed, dueOf(first)!);
  }

  /**
   * A commit that moves rows: from `gone` (as they were) to `put` (as they are, due at other times;
   * already known). `before` is for before its event is stored, `after` for after that.
   */
  change(
    put: ReadonlyArray<ScheduleRow>,
    gone: ReadonlyArray<ScheduleRow>,
  ): { readonly before: () => Promise<void>; readonly after: () => void } {
    const nowMs = this.agent.time.nowMs();
    // One that has passed will come, and covers until then: it is not taken back, whatever the
    // clock says after the commit.
    const taken = gone.filter((row) => !this.bare.delete(row.id) && (dueOf(row) ?? 0) > nowMs);
    let lost = false;
    for (const row of taken) lost = this.pending.delete(keyOf(row.id, dueOf(row)!)) || lost;
    const first = earliest(lost ? [...put, ...future(this.known.values(), nowMs)] : put);
    const wake = first === undefined || this.covers(dueOf(first)!) ? undefined : first;
    for (const row of put) if (row !== wake) this.bare.add(row.id);
    if (wake !== undefined) this.bare.delete(wake.id);
    this.leaving = gone;
    return {
      before: async () => {
        if (wake === undefined) return;
        await this.alarms.arm(wake);
        this.pending.set(keyOf(wake.id, dueOf(wake)!), dueOf(wake)!);
      },
      after: () => {
        this.leaving = [];
        for (const row of taken) this.alarms.disarm(row);
        for (const row of gone) this.release(keyOf(row.id, dueOf(row) ?? 0));
        this.settle();
      },
    };
  }

  /** A timer has come, or one that was armed by an earlier activation. */
  came(key: string, handle: InputHandle): void {
    this.held.hold(key, handle);
    this.settled.delete(key);
    if (this.pending.delete(key) || this.assumed === undefined) return;
    // It may be the earlier one that was assumed.
    this.pending.delete(this.assumed);
    this.assumed = undefined;
  }

  /** Its schedule is settled and stored, or there is none. */
  release(key: string): void {
    if (!this.held.has(key)) return;
    this.settled.add(key);
    this.settle();
  }

  /** It can't be looked at now: it comes again after `ms`, and covers until then. */
  putOff(key: string, ms: number): void {
    this.settled.delete(key);
    this.held.putOff(key, ms);
    this.settle();
  }

  /** Rule 2. Called whenever a run has ended, or a commit that moved rows is stored. */
  settle(): void {
    const { held, settled } = this;
    if (settled.size === 0) return;
    // One that is not settled covers until it is, and this is called then.
    const last = held.size > settled.size ? undefined : anyOf(settled);
    for (const key of settled) if (key !== last) this.ack(key);
    if (last === undefined || this.arming) return;
    const next = earliest(this.known.values(), earliest(this.leaving));
    const dueMs = dueOf(next);
    if (next === undefined || dueMs === undefined || this.covers(dueMs)) return this.ack(last);
    // When it has run this is called again.
    if (dueMs <= this.agent.time.nowMs()) return this.fireOnce(next.id, dueMs);
    this.arming = true;
    this.agent.waitUntil(this.armNext(next, last));
  }

  /** The agent was destroyed: no row is left, and no timer should be. */
  destroy(): void {
    this.settled.clear();
    this.held.releaseAll();
    for (const row of this.known.values()) if (!this.bare.has(row.id)) this.alarms.disarm(row);
  }

  /** `key`: of the delivery that covers until then. */
  private async armNext(row: ScheduleRow, key: string): Promise<void> {
    const dueMs = dueOf(row)!;
    this.bare.delete(row.id);
    try {
      await this.alarms.arm(row);
    } catch (error) {
      if (error instanceof AgentDiscarded) return;
      this.agent.log.error("the timer of the next schedule can't be stored; it is tried again", {
        schedule: row.id,
        error: messageOf(error),
      });
      this.arming = false;
      return this.putOff(key, TRY_AGAIN_MS);
    }
    this.arming = false;
    // Moved meanwhile: its timer may have been taken back.
    if (dueOf(this.known.get(row.id)) === dueMs) this.pending.set(keyOf(row.id, dueMs), dueMs);
    this.settle();
  }

  /** Firing may find that there is nothing to run, and settle that at once. */
  private fireOnce(id: string, dueMs: number): void {
    this.arming = true;
    this.fire(id, dueMs);
    this.arming = false;
  }

  private ack(key: string): void {
    this.settled.delete(key);
    this.held.release(key);
  }

  /** Is a timer pending that comes by then (rule 3)? */
  private covers(dueMs: number): boolean {
    const nowMs = this.agent.time.nowMs();
    for (const atMs of this.pending.values()) if (atMs > nowMs && atMs <= dueMs) return true;
    return false;
  }
}

/** Of those that can be armed, the one that is due first. */
function earliest(
  rows: Iterable<ScheduleRow>,
  before?: ScheduleRow | undefined,
): ScheduleRow | undefined {
  let first = before;
  let firstMs = dueOf(before) ?? DUE_MS_MAX + 1;
  for (const row of rows) {
    const dueMs = dueOf(row);
    if (dueMs === undefined || dueMs >= firstMs) continue;
    first = row;
    firstMs = dueMs;
  }
  return first;
}

function* future(rows: Iterable<ScheduleRow>, nowMs: number): Iterable<ScheduleRow> {
  for (const row of rows) if ((dueOf(row) ?? 0) > nowMs) yield row;
}

function anyOf<A>(items: Iterable<A>): A | undefined {
  for (const item of items) return item;
  return undefined;
}
