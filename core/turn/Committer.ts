/**
 * Commits an agent's writes to its journal, and holds outputs back until they are stored.
 *
 * 1. Everything written since the last commit goes into one event, or into none (I4).
 * 2. At most one append is in flight; what is written or ends meanwhile shares the next event
 *    (group commit).
 * 3. **The output gate.** `afterCommit(f)` runs `f` once everything written before the call is
 *    stored, in the order of the calls. So no answer, frame or ack reports a write that a crash
 *    could undo. An agent without a journal has no fence and needs none: its owner's first event
 *    is reported only if the lease was held when that was stored (`docs/internals/ownership.md`).
 *    Acking a delivery because the journal is empty needs one (`afterFence`).
 * 4. The writes of a durable turn gather until it ends: one durable turn, one commit. They go
 *    earlier only when something forces it: `flush()` (an outgoing call), or `GATHER_MS` since its
 *    first write. Another turn's commit waits for it that long: pages can't be told apart by turn,
 *    and half a turn that is stored is applied twice if the host then dies. `holding` asks the
 *    mailbox to begin nothing meanwhile, so that the wait ends.
 * 5. Once an append is refused or its outcome is unknown nothing more runs: `onFailed` is told
 *    once, outputs are dropped, and waiters are rejected.
 * 6. What an event leaves begun and not done is stored in the inbox before it is (`DirectInput`).
 * 7. What the next start would write again (`remade`), while there is no journal, waits for the
 *    first other event. Fed by `ActiveAgent` and the agent's API; feeds the journal port.
 */
import type { AgentDatabase } from "../database/Databases.ts";
import type { AppendResult } from "../journal/Journal.ts";
import { TimeoutQueue } from "../time/TimeoutQueue.ts";
import { perClock } from "../time/perClock.ts";
import type { Sequence } from "../../schemas/Address.ts";
import { AgentDiscarded } from "../errors/errors.ts";
import {
  isEmpty,
  isOpen,
  mayEndSoon,
  newBatch,
  takeRecord,
  waitsForEnd,
  type Batch,
  type Output,
  type TurnRecord,
} from "./Batch.ts";
import { applyEvent } from "../journal/applyEvent.ts";
import {
  claimEmpty,
  isStillEmpty,
  LOOK_AGAIN_MS,
  type JournalOwner,
} from "../journal/emptyJournal.ts";
import { encodeCommit, encodeDestroyed, isOver } from "../journal/encodeCommit.ts";
import type { CommitTriggers } from "./CommitTriggers.ts";
import type { Turn } from "./Turn.ts";
import { SparseSet } from "../collections/sparse.ts";

/**
 * A durable turn's writes wait at most this long for its end (`docs/internals/a-turn.md`, "The
 * commit").
 */
export const GATHER_MS = 50;
/** What a stall of the process held up runs first, before a turn counts as late. */
const SETTLE_MS = 1;
/** Times that a commit waits for turns that wrote later than the one it waited for before. */
const HOLDS_MAX = 3;

/** One for all agents of a process: by its clock. */
const gatherTimeouts = perClock((time) => new TimeoutQueue(time));

export interface CommitterHost extends JournalOwner {
  readonly database: AgentDatabase;
  /** What schedules and queue need from the broker with the next event; read just before it. */
  readonly takeTriggers: () => CommitTriggers | undefined;
  /** True while the lease is held by the local clock; else resolves to whether it was renewed. */
  readonly isStillOurs: () => true | Promise<boolean>;
  /** Puts an envelope into the agent's inbox. Rejects when it may not lie there. */
  readonly storeInput: (data: Uint8Array) => Promise<Sequence>;
  /** An event is stored and applied. */
  readonly onCommitted: (bytes: number, turns: ReadonlyArray<Turn>) => void;
  /** Rule 5. */
  readonly onFailed: (outcome: AppendResult["_tag"] | "Defect", error: unknown) => void;
}

export class Committer {
  private readonly host: CommitterHost;
  private readonly rejects = new SparseSet<(error: unknown) => void>();
  private pending: Batch | undefined;
  private inFlight: Batch | undefined;
  /** Rule 7. Only while nothing else that is written is pending or in flight. */
  private remade: Batch | undefined;
  /** A commit is due as soon as it may go. */
  private wanted = false;
  private holds = 0;
  private failed = false;
  private cancelGather: (() => void) | undefined;
  private released: Array<() => void> = [];

  /** Monotonic: when the journal was known to end where the agent does. */
  private lookedMs: number;

  constructor(host: CommitterHost) {
    this.host = host;
    this.lookedMs = host.time.monotonicMs();
  }

  /** Nothing has to happen before it may tell what it knows. */
  get settled(): boolean {
    return this.idle && !this.mustLook;
  }

  /** Without a journal, and it has not looked for one lately (`emptyJournal`). */
  private get mustLook(): boolean {
    const { image, time } = this.host;
    return image.seq === 0 && time.monotonicMs() - this.lookedMs >= LOOK_AGAIN_MS;
  }

  /** Nothing is written or held back that is not stored. */
  get idle(): boolean {
    return this.pending === undefined && this.inFlight === undefined;
  }

  /** A commit waits for durable turns that have written and not ended: begin no more of them. */
  get holding(): boolean {
    return this.wanted && this.pending !== undefined && this.inFlight === undefined;
  }

  /** It has written, and the commit of that waits for its end. */
  awaits(turn: Turn): boolean {
    return this.pending?.turns.has(turn) === true && mayEndSoon(turn);
  }

  /** Runs `f` when `holding` ends, unless the agent is discarded first. */
  whenReleased(f: () => void): void {
    this.released.push(f);
  }

  /** This turn wrote. `last`: its state follows the other turns' states; `remade`: rule 7. */
  touch(turn: Turn, { last = false, remade = false } = {}): void {
    if (remade && this.host.image.seq === 0 && isEmpty(this.pending) && isEmpty(this.inFlight)) {
      this.remade ??= newBatch();
      this.remade.turns.add(turn);
      return;
    }
    const batch = this.batch();
    if (last && batch.turns.size > 1) batch.turns.delete(turn);
    batch.turns.add(turn);
    if (isOpen(turn)) {
      if (turn.wroteMs === undefined) {
        turn.wroteMs = this.host.time.monotonicMs();
        turn.late = false;
      }
      return this.gather();
    }
    this.flushSoon();
  }

  /** The turn is over. Commits a durable one now, whether it wrote or not; its outcome is set. */
  end(turn: Turn): void {
    turn.ended = true;
    if (turn.durable) this.batch().turns.add(turn);
    if (this.pending?.turns.has(turn)) this.startFlush();
  }

  /** Rule 3. */
  afterCommit(output: Output): void {
    if (this.failed) return;
    if (this.idle && this.mustLook) {
      this.pending = newBatch();
      this.flushSoon();
    }
    const batch = this.pending ?? this.inFlight;
    if (batch === undefined) output(this.host.image.seq);
    else {
      batch.outputs.push(output);
      if (batch === this.pending) this.gather();
    }
  }

  /** As `afterCommit`, for what is reported as stored: rule 7 may hold it back and drop it. */
  whenStored(output: Output): void {
    if (this.remade === undefined) this.afterCommit(output);
    else if (!this.failed) this.remade.outputs.push(output);
  }

  /** As `afterCommit`, once no older owner can store an event, in an empty journal either. */
  afterFence(output: Output): void {
    if (this.host.image.seq > 0) return this.afterCommit(output);
    if (this.failed) return;
    const batch = this.batch();
    batch.fence = true;
    batch.outputs.push(output);
    this.flushSoon();
  }

  /** Resolves when everything written so far is stored. Rejects with `AgentDiscarded`. */
  stored(): Promise<void> {
    if (this.failed) return Promise.reject(new AgentDiscarded());
    return new Promise<void>((resolve, reject) => {
      this.rejects.add(reject);
      this.afterCommit(() => {
        this.rejects.delete(reject);
        resolve();
      });
    });
  }

  /** Commits all writes so far, this turn's too. Resolves when stored, or `AgentDiscarded`. */
  flush(turn: Turn): Promise<void> {
    const stored = this.stored();
    turn.late = true;
    this.startFlush();
    return stored;
  }

  /**
   * Stores what is written, and then the event that ends the agent's life; this turn's input is
   * done with it. Nothing is stored after it; and not it, where nothing was before and no input
   * waits to be done with it. The caller sees to it that nothing more is written meanwhile. Rejects
   * with `AgentDiscarded`.
   */
  async destroy(turn: Turn): Promise<void> {
    await this.flush(turn);
    while (!this.idle) await this.stored();
    const { image, time } = this.host;
    if (image.seq === 0 && !turn.durable) return this.abandon();
    const last = newBatch();
    this.inFlight = last;
    const { data, head } = encodeDestroyed({
      image,
      host: this.host.host,
      epoch: this.host.epoch,
      timeMs: time.nowMs(),
      eventId: time.id(),
      turn,
    });
    const result = await this.host.append(data, image.seq);
    if (!this.failed && result._tag !== "Stored") this.fail(result._tag, result);
    if (this.failed || result._tag !== "Stored") throw new AgentDiscarded();
    applyEvent(image, result.seq, head);
    this.inFlight = undefined;
    for (const output of last.outputs) output(image.seq);
    this.abandon();
  }

  /** Drops everything not stored. */
  abandon(): void {
    if (this.failed) return;
    this.failed = true;
    this.cancelGather?.();
    this.pending = undefined;
    this.remade = undefined;
    this.released = [];
    for (const reject of this.rejects) reject(new AgentDiscarded());
    this.rejects.clear();
  }

  /** Writes made without an await between them form one commit. */
  private flushSoon(): void {
    if (!this.wanted) queueMicrotask(() => this.startFlush());
    this.wanted = true;
  }

  /** The batch of what is written now. */
  private batch(): Batch {
    const batch = (this.pending ??= newBatch());
    if (this.remade === undefined) return batch;
    for (const turn of this.remade.turns) batch.turns.add(turn);
    batch.outputs.push(...this.remade.outputs);
    this.remade = undefined;
    return batch;
  }

  private gather(): void {
    const { time } = this.host;
    this.cancelGather ??= gatherTimeouts(time).after(GATHER_MS, () => {
      this.cancelGather = time.after(SETTLE_MS, () => {
        this.cancelGather = undefined;
        this.gathered();
      });
    });
  }

  /** Rule 4: a timer ends a turn's time, since a stalled process would see the clock too late. */
  private gathered(): void {
    const nowMs = this.host.time.monotonicMs();
    for (const turn of this.pending?.turns ?? [])
      if (nowMs - (turn.wroteMs ?? nowMs) >= GATHER_MS) turn.late = true;
    this.startFlush();
  }

  private startFlush(): void {
    if (this.failed || this.pending === undefined) {
      this.wanted = false;
      return;
    }
    this.wanted = true;
    // Tried again when the append is answered.
    if (this.inFlight !== undefined) return;
    if (this.holds <= HOLDS_MAX && waitsForEnd(this.pending)) {
      // Tried again when one ends, and by the timer.
      if (this.cancelGather === undefined) {
        this.holds++;
        this.gather();
      }
      return;
    }
    this.wanted = false;
    this.holds = 0;
    this.cancelGather?.();
    this.cancelGather = undefined;
    const batch = this.pending;
    this.pending = undefined;
    this.inFlight = batch;
    const stored = isEmpty(batch) ? this.look(batch) : this.commit(batch);
    stored.catch((error: unknown) => this.fail("Defect", error));
    const released = this.released;
    this.released = [];
    for (const f of released) f();
  }

  /** Of an agent without a journal, for a batch that holds outputs back and nothing else. */
  private async look(batch: Batch): Promise<void> {
    this.lookedMs = this.host.time.monotonicMs();
    if (!(await isStillEmpty(this.host))) this.fail("Conflict", LATE);
    if (!this.failed) this.release(batch);
  }

  private async commit(batch: Batch): Promise<void> {
    const { image, database, time } = this.host;
    const isFirst = image.seq === 0;
    const triggers = this.host.takeTriggers();
    const frozen = database.dirty ? database.freeze() : undefined;
    const turns = [...batch.turns];
    const records: TurnRecord[] = [];
    let unstored: TurnRecord[] | undefined;
    for (const turn of turns) {
      const record = takeRecord(turn, frozen !== undefined);
      if (record === undefined) continue;
      records.push(record);
      if (turn.unstored && !isOver(turn, record.outcome)) (unstored ??= []).push(record);
    }
    if (triggers !== undefined) await triggers.before();
    if (unstored !== undefined && !(await this.storeInputs(unstored))) return;
    if (this.failed) return;
    if (records.length > 0 || frozen !== undefined || triggers !== undefined) {
      const commit = encodeCommit({
        image,
        host: this.host.host,
        epoch: this.host.epoch,
        timeMs: time.nowMs(),
        eventId: time.id(),
        turns: records,
        frozen,
        schedules: triggers?.schedules,
        queue: triggers?.queue,
      });
      const result = await this.host.append(commit.data, image.seq);
      if (this.failed) return;
      if (result._tag !== "Stored") return this.fail(result._tag, result);
      if (frozen !== undefined) database.committed();
      applyEvent(image, result.seq, commit.head, commit.state);
      this.host.onCommitted(commit.data.length, turns);
      triggers?.after();
    } else if (isFirst && batch.fence) {
      const result = await claimEmpty(this.host);
      if (this.failed) return;
      if (result._tag !== "Stored") return this.fail(result._tag, result);
    }
    // Rule 3.
    const isOurs = !isFirst || image.seq === 0 || this.host.isStillOurs();
    if (isOurs !== true && !(await isOurs)) return this.fail("Unknown", LOST);
    if (!this.failed) this.release(batch);
  }

  private release(batch: Batch): void {
    this.inFlight = undefined;
    const { seq } = this.host.image;
    for (const output of batch.outputs) output(seq);
    if (this.wanted) this.startFlush();
  }

  /** Rule 6. False: it could not be done, and the agent has failed. */
  private async storeInputs(records: ReadonlyArray<TurnRecord>): Promise<boolean> {
    try {
      for (const { turn } of records) await turn.storeInput((data) => this.host.storeInput(data));
      return true;
    } catch (error) {
      this.fail("Unknown", error);
      return false;
    }
  }

  private fail(outcome: AppendResult["_tag"] | "Defect", error: unknown): void {
    if (this.failed) return;
    this.inFlight = undefined;
    this.abandon();
    this.host.onFailed(outcome, error);
  }
}

const LATE = { message: "an older owner's first event came late: the agent is rebuilt with it" };
const LOST = { message: "the shard was lost as the first event was stored: nobody is told of it" };
