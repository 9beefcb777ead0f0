/**
 * Decides when an agent's writes are committed, and holds outputs back until they are stored.
 * `writeBatch` writes, `Holds` knows what a commit waits for; `ActiveAgent` and the agent's API
 * feed it.
 *
 * 1. At most one append is in flight; what is written or ends meanwhile shares the next event
 *    (group commit).
 * 2. **The output gate.** `afterCommit(f)` runs `f` once all that was written before the call is
 *    stored, in the order of the calls. Acking a delivery because the journal is empty requires a
 *    fence (`afterFence`).
 * 3. The writes of a durable turn gather until it ends, or until `flush`, a step, or `GATHER_MS`.
 * 4. Once an append has failed nothing more runs: outputs are dropped, and waiters rejected.
 * 5. While an agent has no journal, writes that its next start would repeat (`remade`) wait for the
 *    first other event.
 * 6. Results of steps are stored even while other writes wait, in events that hold nothing else.
 * 7. What depends on turns that wrote in a transaction of other code waits for its end, and then
 *    for the commit (`JoinedTurns`).
 */
import { AgentDiscarded } from "../errors/errors.ts";
import type { AppendResult } from "../journal/Journal.ts";
import { isEmpty, isOpen, mayEndSoon, newBatch, runOutputs, type Batch, type Output } from "./Batch.ts"; // prettier-ignore
import { isStillEmpty, LOOK_AGAIN_MS } from "../journal/emptyJournal.ts";
import { GATHER_MS, GatherTimer } from "./GatherTimer.ts";
import { Holds } from "./Holds.ts";
import { JoinedTurns } from "./JoinedTurns.ts";
import type { Turn } from "./Turn.ts";
import { withItem, without } from "../collections/sparse.ts";
import {
  writeBatch,
  writeDestroyed,
  writeSteps,
  type Commits,
  type CommitterHost,
  type WriteFailure,
  type Written,
} from "./writeBatch.ts";

export class Committer implements Commits {
  private rejects: Set<(error: unknown) => void> | undefined;
  private pending: Batch | undefined;
  private inFlight: Batch | undefined;
  /** Rule 6. */
  private results: Batch | undefined;
  /** Rule 5. Only while nothing else that is written is pending or in flight. */
  private remade: Batch | undefined;
  /** A commit is due as soon as it may go. */
  private wanted = false;
  /** A check whether it may go is scheduled. */
  private flushing = false;
  readonly holds: Holds;
  /** `pending` waits for a turn to end. */
  private held = false;
  /** As in `Commits`. */
  isOver = false;
  private readonly gathering = new GatherTimer(this);
  /** Rule 7. */
  private joined: JoinedTurns | undefined;
  private released: Array<() => void> | undefined;

  /** Monotonic: when the journal was last known to end where the agent's image does. */
  private lookedMs: number;

  constructor(readonly host: CommitterHost) {
    this.holds = new Holds(host.database);
    this.lookedMs = host.time.monotonicMs();
  }

  /** Whether the agent may answer now, without waiting for anything. */
  get settled(): boolean {
    return this.idle && !this.mustLook;
  }

  /** Whether the agent has no journal, and has not looked for one lately (`emptyJournal`). */
  private get mustLook(): boolean {
    const { image, time } = this.host;
    return image.seq === 0 && time.monotonicMs() - this.lookedMs >= LOOK_AGAIN_MS;
  }

  /** Whether everything written is stored, and nothing is held back. */
  get idle(): boolean {
    return !this.results && !this.pending && !this.inFlight && this.joined === undefined;
  }

  /** A commit waits for durable turns that have written: no more of them may begin. */
  get holding(): boolean {
    return this.held || (this.wanted && this.pending !== undefined && this.inFlight === undefined);
  }

  /** Whether the turn has written, and the commit of its writes waits for its end. */
  awaits(turn: Turn): boolean {
    return this.pending?.turns.has(turn) === true && mayEndSoon(turn);
  }

  /** Runs `f` when `holding` ends, unless the agent is discarded first. */
  whenReleased(f: () => void): void {
    (this.released ??= []).push(f);
  }

  /** This turn wrote. `last`: its state follows the other turns' states; `remade`: rule 5. */
  touch(turn: Turn, { last = false, remade = false } = {}): void {
    if (remade && this.host.image.seq === 0 && isEmpty(this.pending) && isEmpty(this.inFlight)) {
      this.remade ??= newBatch();
      this.remade.turns.add(turn);
      return;
    }
    const batch = this.batch();
    if (last && batch.turns.size > 1) batch.turns.delete(turn);
    batch.turns.add(turn);
    if (!remade) batch.remade?.delete(turn);
    if (turn.yields) this.holds.wantPart();
    if (isOpen(turn)) {
      if (turn.wroteMs === undefined) {
        turn.wroteMs = this.host.time.monotonicMs();
        turn.late = false;
      }
      return this.gathering.start();
    }
    this.flushSoon();
  }

  /** Rule 7: the turn is one of those. `isInside` says whether the running code is not. */
  join(turn: Turn, isInside: () => boolean): void {
    (this.joined ??= new JoinedTurns(isInside)).add(turn);
  }

  /** Rule 7: the transaction is committed. */
  releaseJoined(): void {
    const { joined } = this;
    this.joined = undefined;
    joined?.release(this);
  }

  /** The turn is over. Commits a durable one now, whether it wrote or not; its outcome is set. */
  end(turn: Turn): void {
    if (this.joined?.keepsEnd(turn) === true) return;
    turn.end();
    if (turn.durable) this.batch().turns.add(turn);
    if (this.pending?.turns.has(turn)) this.startFlush();
  }

  /** Rule 2. */
  afterCommit(output: Output): void {
    if (this.isOver || this.joined?.keeps(output) === true) return;
    if (this.idle && this.mustLook) {
      this.pending = newBatch();
      this.flushSoon();
    }
    const batch = this.pending ?? this.inFlight;
    if (batch === undefined) output(this.host.image.seq);
    else {
      batch.outputs.push(output);
      if (batch === this.pending) this.gathering.start();
    }
  }

  /** As `afterCommit`, for what is reported as stored: rule 5 may hold it back and drop it. */
  whenStored(output: Output): void {
    if (this.remade === undefined) this.afterCommit(output);
    else if (!this.isOver) this.remade.outputs.push(output);
  }

  /** As `afterCommit`, once no older owner can store an event, even in an empty journal. */
  afterFence(output: Output): void {
    if (this.host.image.seq > 0) return this.afterCommit(output);
    if (this.isOver || this.joined?.keeps(output) === true) return;
    const batch = this.batch();
    batch.fence = true;
    batch.outputs.push(output);
    this.flushSoon();
  }

  /** Resolves when everything written so far is stored. Rejects with `AgentDiscarded`. */
  stored(): Promise<void> {
    return this.whenRun((output) => this.afterCommit(output));
  }

  /** Commits all writes so far, this turn's too. Resolves and rejects as `stored`. */
  flush(turn: Turn): Promise<void> {
    const stored = this.stored();
    turn.late = true;
    this.holds.wantPart();
    this.startFlush();
    return stored;
  }

  /** A step begins: what its turn wrote before it is stored as a part, where it can be. */
  beginStep(turn: Turn): void {
    if (this.pending?.turns.has(turn) !== true) return;
    this.holds.wantPart();
    this.startFlush();
  }

  /** A step is over: its turn has the gather time to end, or to begin the next. */
  endStep(turn: Turn): void {
    if (this.isOver || turn.ended) return;
    const hasWritten =
      this.pending?.turns.has(turn) === true || this.holds.parted?.has(turn) === true;
    if (!hasWritten) return;
    turn.wroteMs = this.host.time.monotonicMs();
    turn.late = false;
    this.holds.stepped();
    this.gathering.start();
  }

  /** Stores a running turn's step results (rule 6). Rejects with `AgentDiscarded`. */
  storeSteps(turn: Turn): Promise<void> {
    return this.whenRun((output) => {
      this.results ??= newBatch();
      this.results.turns.add(turn);
      this.results.outputs.push(output);
      this.flushSoon();
    });
  }

  /**
   * Stores what is written, and then the event that ends the agent's life and completes this turn's
   * input. Nothing is stored after that event. It is not needed, and not stored, for an agent
   * without a journal, unless it has an input to complete. The caller ensures that nothing is
   * written meanwhile. Rejects with `AgentDiscarded`.
   */
  async destroy(turn: Turn): Promise<void> {
    this.holds.end();
    await this.flush(turn);
    while (!this.idle) await this.stored();
    const { image } = this.host;
    if (image.seq === 0 && !turn.durable) return this.abandon();
    const last = newBatch();
    this.inFlight = last;
    const failure = await writeDestroyed(this, turn);
    if (failure !== undefined) this.fail(failure.outcome, failure.error);
    if (this.isOver) throw new AgentDiscarded();
    this.inFlight = undefined;
    for (const output of last.outputs) output(image.seq);
    this.abandon();
  }

  /** Drops everything not stored. */
  abandon(): void {
    if (this.isOver) return;
    this.isOver = true;
    this.gathering.stop();
    this.pending = undefined;
    this.results = undefined;
    this.remade = undefined;
    this.joined = undefined;
    this.released = undefined;
    for (const reject of this.rejects ?? []) reject(new AgentDiscarded());
    this.rejects = undefined;
  }

  /** Resolves when the output runs that `add` receives. Rejects with `AgentDiscarded` (rule 4). */
  private whenRun(add: (output: Output) => void): Promise<void> {
    if (this.isOver) return Promise.reject(new AgentDiscarded());
    return new Promise((resolve, reject) => {
      this.rejects = withItem(this.rejects, reject);
      add(() => {
        this.rejects = without(this.rejects, reject);
        resolve();
      });
    });
  }

  /** Writes made without an await between them form one commit. */
  private flushSoon(): void {
    this.wanted = true;
    // Tried again when the append is answered.
    if (this.flushing || this.inFlight !== undefined) return;
    this.flushing = true;
    queueMicrotask(() => {
      this.flushing = false;
      this.startFlush();
    });
  }

  /** The batch that takes what is written now. */
  private batch(): Batch {
    const batch = (this.pending ??= newBatch());
    if (this.remade === undefined) return batch;
    for (const turn of this.remade.turns) batch.turns.add(turn);
    batch.remade = this.remade.turns;
    for (const output of this.remade.outputs) batch.outputs.push(output);
    this.remade = undefined;
    return batch;
  }

  /** Rule 3. This timer marks turns as late: the clock alone would count a stall of the process. */
  gathered(): void {
    const nowMs = this.host.time.monotonicMs();
    for (const turns of [this.pending?.turns ?? [], this.holds.parted ?? []])
      for (const turn of turns) if (nowMs - (turn.wroteMs ?? nowMs) >= GATHER_MS) turn.late = true;
    this.startFlush();
  }

  private startFlush(): void {
    const { pending, results } = this;
    if (this.isOver || (pending === undefined && results === undefined)) {
      this.wanted = false;
      return;
    }
    this.wanted = true;
    // Tried again when the append is answered.
    if (this.inFlight !== undefined) return;
    const isHeld = pending !== undefined && this.hold(pending);
    if (results !== undefined && (pending === undefined || isHeld)) {
      this.results = undefined;
      this.wanted = pending !== undefined;
      return this.send(results, writeSteps);
    }
    if (isHeld || pending === undefined) return;
    this.wanted = false;
    this.held = false;
    this.holds.released();
    this.gathering.stop();
    this.pending = undefined;
    // A part must not include turns that only have step results: their event follows.
    if (results !== undefined && this.holds.isPart(pending)) this.wanted = true;
    else if (results !== undefined) {
      this.results = undefined;
      for (const turn of results.turns) pending.turns.add(turn);
      for (const output of results.outputs) pending.outputs.push(output);
    }
    this.send(pending, isEmpty(pending) ? () => this.look() : writeBatch);
    const released = this.released ?? [];
    this.released = undefined;
    for (const f of released) f();
  }

  /** Whether the batch has to wait. The end of a turn or a step, or the timer, tries it again. */
  private hold(batch: Batch): boolean {
    const reason = this.holds.reason(batch);
    if (!this.gathering.runs && reason !== undefined) {
      if (reason === "gather") this.holds.gathering();
      // A turn between two steps gets the gather time, too.
      if (reason === "gather" || this.holds.anyBetweenSteps()) this.gathering.start();
    }
    this.held = reason !== undefined;
    return this.held;
  }

  /** `inFlight` is set before `write` reads the turns: outputs that this causes wait for it. */
  private send(batch: Batch, write: (commits: Commits, batch: Batch) => Written): void {
    this.inFlight = batch;
    let written: Written;
    try {
      written = write(this, batch);
    } catch (error) {
      return this.fail("Defect", error);
    }
    written.then(
      (failure) => {
        if (failure !== undefined) this.fail(failure.outcome, failure.error);
        else if (!this.isOver) this.release(batch);
      },
      (error: unknown) => this.fail("Defect", error),
    );
  }

  /** For a batch that has only outputs: checks that an agent without a journal still has none. */
  private async look(): Promise<WriteFailure | undefined> {
    this.lookedMs = this.host.time.monotonicMs();
    return (await isStillEmpty(this.host)) ? undefined : { outcome: "Conflict", error: LATE };
  }

  private release(batch: Batch): void {
    this.inFlight = undefined;
    const failure = runOutputs(batch, this.host.image.seq);
    if (failure !== undefined) this.fail("Defect", failure.error);
    else if (this.wanted) this.startFlush();
  }

  private fail(outcome: AppendResult["_tag"] | "Defect", error: unknown): void {
    if (this.isOver) return;
    this.inFlight = undefined;
    this.abandon();
    this.host.onFailed(outcome, error);
  }
}

const LATE = { message: "an older owner's first event arrived late: the agent is rebuilt from it" };
