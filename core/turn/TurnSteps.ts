/**
 * The steps of one turn in memory: what `core/step/AgentSteps` knows of them while the turn runs,
 * and what `Committer` has to store.
 */
import type { StepAgain } from "../../schemas/JournalEvent.ts";
import type { DoneStep } from "../journal/encodeCommit.ts";
import { StepCounts } from "./StepCounts.ts";

/** How a step is undone (`core/step/undoSteps`). */
export interface StepUndo {
  readonly name: string;
  /**
   * Resolves once the step is undone, now or in an earlier run. Rejects with what its last attempt
   * failed with, now or then.
   */
  readonly run: () => Promise<unknown>;
}

/** A step within which others are begun. */
interface OuterStep {
  readonly id: string;
  readonly begun: StepCounts;
}

export class TurnSteps {
  /** Steps of each name that were begun in this run. */
  private readonly begun = new StepCounts();
  /** Steps whose functions run. */
  running = 0;
  /** Steps that were refused (`AgentSteps`, rule 5). */
  refused = 0;
  /** Those steps, until their results are stored. */
  inFlight = new Set<Promise<unknown>>();
  /** By key, in the order in which this run asked for them: how to undo them. */
  readonly undos = new Map<string, StepUndo>();
  /** Keys of the steps that this run asked for. */
  readonly asked = new Set<string>();
  /** Whether a step has ended in this run: from then on, its host's end uses up no attempt. */
  private gotOn = false;
  private unstored: DoneStep[] = [];
  /** By key: the steps that the next attempt runs again, with their errors, if any. */
  private readonly again = new Map<string, string | undefined>();

  /**
   * The key of the next step of that name: `1:charge`, `2:charge`. Steps within the function of a
   * step are counted within its attempt: `1:order>1:charge`. A `>` of a name is doubled, so that
   * no name makes the key of a step within another.
   */
  nextKey(name: string, within: OuterStep | undefined): string {
    const own = (within?.begun ?? this.begun).next(name.replaceAll(">", ">>"));
    const key = within === undefined ? own : `${within.id}>${own}`;
    this.asked.add(key);
    return key;
  }

  add(step: DoneStep): void {
    this.gotOn = true;
    this.unstored.push(step);
  }

  /** When this attempt fails, the next one runs the step again. `error`: how it failed, if so. */
  runAgain(key: string, error?: string): void {
    this.again.set(key, error);
  }

  /** For the turn that finishes the input after this one was given up. */
  successor(): TurnSteps {
    const next = new TurnSteps();
    for (const undo of this.undos) next.undos.set(...undo);
    for (const key of this.asked) next.asked.add(key);
    for (const step of this.again) next.again.set(...step);
    next.gotOn = this.gotOn;
    next.inFlight = this.inFlight;
    return next;
  }

  /** For the next event (`TurnRecord.steps`). */
  take(): ReadonlyArray<DoneStep> | undefined {
    if (!this.gotOn) return undefined;
    const taken = this.unstored;
    this.unstored = [];
    return taken;
  }

  /** For the event that ends the attempt (`TurnRecord.again`). */
  takeAgain(): ReadonlyArray<StepAgain> | undefined {
    if (this.again.size === 0) return undefined;
    return Array.from(this.again, ([key, error]) =>
      error === undefined ? { key } : { key, error },
    );
  }
}
