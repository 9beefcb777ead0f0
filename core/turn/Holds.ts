/**
 * Decides whether a batch of writes may be committed now, or has to wait for unfinished turns.
 * Dirty pages are not attributed to turns, so a commit takes the writes of every turn. If half a
 * turn is stored, another event follows it and the host dies, that half is applied twice.
 *
 * 1. A commit waits for a turn that has written and is not in a step, for the gather time
 *    (`Committer`, rule 3).
 * 2. A commit that changes state or SQL waits for a turn that has written and is in a step until
 *    that turn ends, however long the step takes. After any crash its writes are applied once. A
 *    turn that failed for good counts as in a step until its end (`core/turn/failForGood`).
 * 3. When a step or an outgoing call begins, the writes of unfinished turns may be stored as a part
 *    (`JournalHead.part`), so that clients see them. The next owner undoes a part at the journal's
 *    end, so rule 2 also holds for turns of a stored part. Turns whose writes need not be undone
 *    with it (`Turn.yields`) may share its event.
 * 4. The end of the agent's life does not wait for steps.
 *
 * `Committer` asks it before each commit.
 */
import type { AgentDatabase } from "../database/Databases.ts";
import { isInStep, isOpen, mayEndSoon, type Batch } from "./Batch.ts";
import type { Turn } from "./Turn.ts";
import { withItem } from "../collections/sparse.ts";

/** Times that a commit waits for turns that wrote later than the one it waited for before. */
const HOLDS_MAX = 3;

export class Holds {
  /** Unfinished turns of parts that the next owner would undo. */
  parted: Set<Turn> | undefined;
  private gathers = 0;
  /** Rule 3: a step or an outgoing call waits for the writes so far to be stored. */
  private partWanted = false;
  private over = false;

  constructor(private readonly database: Pick<AgentDatabase, "dirty">) {}

  /** Rule 3. */
  wantPart(): void {
    this.partWanted = true;
  }

  /** Rule 4. */
  end(): void {
    this.over = true;
  }

  /** What the batch has to wait for: a step, without a limit; the gather time; or nothing. */
  reason(batch: Batch): "step" | "gather" | undefined {
    if (this.gathers <= HOLDS_MAX)
      for (const turn of batch.turns) if (mayEndSoon(turn) && !isInStep(turn)) return "gather";
    if (this.over || (this.partWanted && this.isPart(batch))) return undefined;
    return this.waitsForStep(batch) ? "step" : undefined;
  }

  /**
   * Whether the batch may be stored as a part: an undo of its event would lose nothing but writes
   * of unfinished turns, and writes that need no undo.
   */
  isPart({ turns, remade }: Batch): boolean {
    let open = this.parted !== undefined;
    for (const turn of turns) {
      if (isOpen(turn)) open = true;
      else if (!turn.yields && remade?.has(turn) !== true) return false;
    }
    return open && turns.size > 0;
  }

  /** Whether a turn of a stored part is between two steps, and gets the gather time. */
  anyBetweenSteps(): boolean {
    for (const turn of this.parted ?? []) if (mayEndSoon(turn) && !isInStep(turn)) return true;
    return false;
  }

  /** The gather time of a batch has begun, or begun again. */
  gathering(): void {
    this.gathers++;
  }

  /** A batch is committed. */
  released(): void {
    this.gathers = 0;
    this.partWanted = false;
  }

  /** A step has ended: its turn gets the gather time to reach its end or its next step. */
  stepped(): void {
    this.gathers = 0;
  }

  /** The batch's event is applied. `open`: the journal ends with a part, which can be undone. */
  applied(batch: Batch, { open, part }: { readonly open: boolean; readonly part: boolean }): void {
    if (!open) this.parted = undefined;
    else if (part)
      for (const turn of batch.turns) if (isOpen(turn)) this.parted = withItem(this.parted, turn);
  }

  private waitsForStep(batch: Batch): boolean {
    let steps = false;
    for (const turn of batch.turns) steps ||= isInStep(turn) && !turn.ended;
    // A turn of a stored part is waited for between its steps, too.
    for (const turn of this.parted ?? []) steps ||= mayEndSoon(turn);
    return steps && this.changes(batch);
  }

  /** Whether the batch changes state or SQL, or ends a turn of a stored part. */
  private changes({ turns }: Batch): boolean {
    if (this.database.dirty) return true;
    for (const turn of turns)
      if (turn.state !== undefined || this.parted?.has(turn) === true) return true;
    return false;
  }
}
