/**
 * Decides whether a batch of writes may be committed now, or waits for turns that go on. Pages
 * can't be told apart by turn, so a commit takes the writes of every turn, and half a turn that is
 * stored applies twice if its host then ends and something was stored after it.
 *
 * 1. A turn that has written and does not call a step is waited for while its writes gather
 *    (`Committer`, 3).
 * 2. A turn that has written and is in a step is waited for until it ends, however long the step
 *    takes: by every commit that changes state or SQL. So for any crash its writes apply once.
 * 3. What only turns that go on have written may be stored as a part (`JournalHead.part`): when a
 *    step or an outgoing call begins, so that clients see it. The next owner can take it back, as
 *    long as nothing that stands follows it: rule 2 holds for the turns of such a part as well.
 *    What is not undone with it (`Turn.yields`) goes with it at once.
 * 4. The end of the agent's life does not wait for steps.
 */
import type { AgentDatabase } from "../database/Databases.ts";
import { isInStep, isOpen, mayEndSoon, type Batch } from "./Batch.ts";
import type { Turn } from "./Turn.ts";
import { SparseSet } from "../collections/sparse.ts";

/** Times that a commit waits for turns that wrote later than the one it waited for before. */
const HOLDS_MAX = 3;

export class Holds {
  private readonly database: Pick<AgentDatabase, "dirty">;
  /** Turns of parts that may still be taken back. */
  readonly parted = new SparseSet<Turn>();
  private gathers = 0;
  /** Rule 3: somebody asked for what is written to be stored, as a part if need be. */
  private partWanted = false;
  private over = false;

  constructor(database: Pick<AgentDatabase, "dirty">) {
    this.database = database;
  }

  /** Rule 3. */
  wantPart(): void {
    this.partWanted = true;
  }

  /** Rule 4. */
  end(): void {
    this.over = true;
  }

  /** What the batch waits for: a step, without a limit; the gather time; or nothing. */
  reason(batch: Batch): "step" | "gather" | undefined {
    if (this.gathers <= HOLDS_MAX)
      for (const turn of batch.turns) if (mayEndSoon(turn) && !isInStep(turn)) return "gather";
    if (this.over || (this.partWanted && this.isPart(batch))) return undefined;
    return this.waitsForStep(batch) ? "step" : undefined;
  }

  /**
   * All that is written in it was written by turns that go on, or is not undone with their writes:
   * they may be undone as a whole.
   */
  isPart({ turns, remade }: Batch): boolean {
    let open = this.parted.size > 0;
    for (const turn of turns) {
      if (isOpen(turn)) open = true;
      else if (!turn.yields && remade?.has(turn) !== true) return false;
    }
    return open && turns.size > 0;
  }

  /** A turn of a part is in no step, and is waited for. */
  anyBetweenSteps(): boolean {
    for (const turn of this.parted) if (mayEndSoon(turn) && !isInStep(turn)) return true;
    return false;
  }

  /** The gather time begins once more for a batch. */
  gathering(): void {
    this.gathers++;
  }

  /** A batch is committed. */
  released(): void {
    this.gathers = 0;
    this.partWanted = false;
  }

  /** A turn's step has ended: it has the gather time to go on to its end or to its next step. */
  stepped(): void {
    this.gathers = 0;
  }

  /**
   * An event of the batch is applied. `open`: what was stored of turns that go on can be undone.
   */
  applied(batch: Batch, { open, part }: { readonly open: boolean; readonly part: boolean }): void {
    if (!open) this.parted.clear();
    else if (part) for (const turn of batch.turns) if (isOpen(turn)) this.parted.add(turn);
  }

  private waitsForStep(batch: Batch): boolean {
    let steps = false;
    for (const turn of batch.turns) steps ||= isInStep(turn) && !turn.ended;
    // Between two steps a turn of a part has the gather time, too.
    for (const turn of this.parted) steps ||= mayEndSoon(turn);
    return steps && this.changes(batch);
  }

  /** It changes state or SQL, or ends a turn that has. */
  private changes({ turns }: Batch): boolean {
    if (this.database.dirty) return true;
    for (const turn of turns) if (turn.state !== undefined || this.parted.has(turn)) return true;
    return false;
  }
}
