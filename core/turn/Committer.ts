/**
 * Commits an agent's writes to its journal, and holds outputs back until they are stored.
 *
 * 1. Everything written since the last commit goes into one event, or into none (I4).
 * 2. At most one append is in flight; what is written or ends meanwhile shares the next event
 *    (group commit).
 * 3. **The output gate.** `afterCommit(f)` runs `f` once everything written before the call is stored,
 *    in the order of the calls. So no answer, frame or ack ever tells of a write that a crash could undo.
 * 4. The writes of a durable turn gather until it ends: one durable turn, one commit. They go
 *    earlier only when something forces it: `flush()` (an outgoing call), another turn's commit, or
 *    `GATHER_MS` since the first write.
 * 5. Once an append is refused or its outcome is unknown nothing more runs: `onFailed` is told once,
 *    outputs are dropped, and waiters are rejected. The journal was the fence.
 *
 * Fed by `ActiveAgent` and the agent's API; feeds the journal port.
 */
import type { AgentDatabase } from "../database/Databases.ts";
import type { AppendResult } from "../journal/Journal.ts";
import type { TimeShape } from "../time/Time.ts";
import type { Epoch, Sequence } from "../../schemas/Address.ts";
import { AgentDiscarded } from "../agent/errors.ts";
import type { AgentImage } from "./AgentImage.ts";
import { applyEvent } from "./applyEvent.ts";
import { encodeCommit, type CommitTurn } from "./encodeCommit.ts";
import type { Turn } from "./Turn.ts";

/** A durable turn's writes wait at most this long for its end (architecture: "A turn", 3). */
export const GATHER_MS = 50;

type Output = (seq: Sequence) => void;

interface Batch {
  /** Turns that wrote or ended, in order of their last write: later ones win a state. */
  readonly turns: Set<Turn>;
  readonly outputs: Output[];
}

export interface CommitterHost {
  readonly image: AgentImage;
  readonly database: AgentDatabase;
  readonly time: TimeShape;
  readonly host: string;
  readonly epoch: Epoch;
  readonly append: (data: Uint8Array, expectedSeq: Sequence) => Promise<AppendResult>;
  /** An event is stored and applied. */
  readonly onCommitted: (bytes: number, turns: ReadonlyArray<Turn>) => void;
  /** Rule 5. */
  readonly onFailed: (outcome: AppendResult["_tag"] | "Defect", error: unknown) => void;
}

export class Committer {
  private readonly host: CommitterHost;
  private readonly rejects = new Set<(error: unknown) => void>();
  private pending: Batch | undefined;
  private inFlight: Batch | undefined;
  private flushWanted = false;
  private failed = false;
  private cancelGather: (() => void) | undefined;

  constructor(host: CommitterHost) {
    this.host = host;
  }

  /** Nothing is written or held back that is not stored. */
  get idle(): boolean {
    return this.pending === undefined && this.inFlight === undefined;
  }

  /** Something was written in this turn. */
  touch(turn: Turn): void {
    const batch = this.batch();
    batch.turns.delete(turn);
    batch.turns.add(turn);
    if (!turn.durable || turn.ended) {
      // Writes made without an await between them form one commit.
      if (!this.flushWanted) queueMicrotask(() => this.startFlush());
      this.flushWanted = true;
    } else this.gather();
  }

  /** The turn is over. A durable one is committed now, whether it wrote or not; its outcome is set. */
  end(turn: Turn): void {
    turn.ended = true;
    if (turn.durable) this.batch().turns.add(turn);
    if (this.pending?.turns.has(turn)) this.startFlush();
  }

  /** Rule 3. */
  afterCommit(output: Output): void {
    if (this.failed) return;
    const batch = this.pending ?? this.inFlight;
    if (batch === undefined) output(this.host.image.seq);
    else {
      batch.outputs.push(output);
      if (batch === this.pending) this.gather();
    }
  }

  /** Resolves when everything written so far is stored, whenever that is. Rejects with `AgentDiscarded`. */
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

  /** Commits now what is written. Resolves when it is stored; rejects with `AgentDiscarded`. */
  flush(): Promise<void> {
    const stored = this.stored();
    this.startFlush();
    return stored;
  }

  /** Drops everything not stored. */
  abandon(): void {
    if (this.failed) return;
    this.failed = true;
    this.cancelGather?.();
    this.pending = undefined;
    for (const reject of this.rejects) reject(new AgentDiscarded());
    this.rejects.clear();
  }

  private batch(): Batch {
    return (this.pending ??= { turns: new Set(), outputs: [] });
  }

  private gather(): void {
    this.cancelGather ??= this.host.time.after(GATHER_MS, () => {
      this.cancelGather = undefined;
      this.startFlush();
    });
  }

  private startFlush(): void {
    if (this.failed || this.pending === undefined) {
      this.flushWanted = false;
      return;
    }
    if (this.inFlight !== undefined) {
      this.flushWanted = true;
      return;
    }
    this.flushWanted = false;
    this.cancelGather?.();
    this.cancelGather = undefined;
    const batch = this.pending;
    this.pending = undefined;
    this.inFlight = batch;
    this.commit(batch).catch((error: unknown) => this.fail("Defect", error));
  }

  private async commit(batch: Batch): Promise<void> {
    const { image, database, time } = this.host;
    const frozen = database.dirty ? database.freeze() : undefined;
    const turns = [...batch.turns];
    const records = turns.map(takeRecord).filter((r) => r !== undefined);
    if (records.length > 0 || frozen !== undefined) {
      const commit = encodeCommit({
        image,
        host: this.host.host,
        epoch: this.host.epoch,
        timeMs: time.nowMs(),
        eventId: time.id(),
        turns: records,
        ...(frozen === undefined ? {} : { frozen }),
      });
      const result = await this.host.append(commit.data, image.seq);
      if (this.failed) return;
      if (result._tag !== "Stored") return this.fail(result._tag, result);
      if (frozen !== undefined) database.committed();
      applyEvent(image, result.seq, commit.head);
      this.host.onCommitted(commit.data.length, turns);
    }
    this.inFlight = undefined;
    for (const output of batch.outputs) output(image.seq);
    if (this.flushWanted) this.startFlush();
  }

  private fail(outcome: AppendResult["_tag"] | "Defect", error: unknown): void {
    if (this.failed) return;
    this.inFlight = undefined;
    this.abandon();
    this.host.onFailed(outcome, error);
  }
}

/** What the turn has to tell the journal now, taken from it; undefined when that is nothing. */
function takeRecord(turn: Turn): CommitTurn | undefined {
  const { state, sql } = turn;
  const outcome = turn.ended ? turn.outcome : undefined;
  if (state === undefined && sql.length === 0 && outcome === undefined && !turn.announced)
    return undefined;
  turn.announced = false;
  turn.state = undefined;
  turn.sql = [];
  const record = { turn, state, sql, outcome, told: turn.told };
  turn.told = true;
  return record;
}
