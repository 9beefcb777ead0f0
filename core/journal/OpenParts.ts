/**
 * The parts at a journal's end that may be undone: writes that unfinished turns stored before they
 * called the world. If their host ends, these turns run again from their start, and their writes
 * must not apply twice.
 *
 * 1. Only the unbroken end of the journal counts. Once an event that stands follows a part, the
 *    part stands too: pages can't be told apart by turn, and the later event may depend on it.
 * 2. An event that changes nothing of state and SQL (a step's result, a claim, an input that is
 *    done and wrote nothing) does not break that end, unless it ends a turn that has a part there.
 *
 * Part of `AgentImage`, changed by `applyEvent`. `undoParts` undoes the parts.
 */
import type { Cause, JournalHead } from "../../schemas/JournalEvent.ts";
import type { SnapshotHead } from "../../schemas/Snapshot.ts";

export class OpenParts {
  /** Sequence of the first part. Undoing restores the agent as it was before that event. */
  readonly since: number;
  /** Their turns, by key. */
  readonly turns: ReadonlyMap<string, Cause["kind"]>;

  private constructor(since: number, turns: OpenParts["turns"]) {
    this.since = since;
    this.turns = turns;
  }

  static fromSnapshot(parts: SnapshotHead["parts"]): OpenParts | undefined {
    return parts === undefined ? undefined : new OpenParts(parts[0], new Map(parts[1]));
  }

  toSnapshot(): NonNullable<SnapshotHead["parts"]> {
    return [this.since, [...this.turns]];
  }

  static after(
    before: OpenParts | undefined,
    seq: number,
    head: JournalHead,
  ): OpenParts | undefined {
    if (head.part === true) {
      const turns = new Map(before?.turns);
      for (const { cause } of head.turns)
        if (cause.id !== undefined) turns.set(cause.id, cause.kind);
      return new OpenParts(before?.since ?? seq, turns);
    }
    if (before === undefined || head.kind === "claimed") return before;
    return head.kind === "turns" && changesNothing(head) && !before.isEndedBy(head)
      ? before
      : undefined;
  }

  /** Whether the event ends one of the turns, or an attempt of one. */
  private isEndedBy({ turns }: JournalHead): boolean {
    return turns.some(
      ({ cause, begun, error }) =>
        this.turns.has(cause.id ?? "") && (begun !== true || error !== undefined),
    );
  }
}

const changesNothing = ({ turns, pages, schedules, queue }: JournalHead): boolean =>
  pages === undefined &&
  schedules === undefined &&
  queue === undefined &&
  turns.every(({ state, undone }) => state === undefined && undone === undefined);
