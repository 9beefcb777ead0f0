/**
 * Where the results of steps are kept until the work that they belong to is over, and what
 * identifies that work. `InputSteps` keeps those of an input's turns, `core/fiber/FiberSteps` those
 * of a fiber; `AgentSteps` runs steps for both.
 */
import type { DoneStep } from "../journal/encodeCommit.ts";
import type { StepText } from "./runAttempts.ts";

/** A result, by the step's key in the journal: `1:charge`. */
export interface KeptStep {
  readonly text: StepText;
}

export interface StepStore {
  /** Identifies the work within the agent. */
  readonly work: string;
  /** The work has ended: nothing of it is kept any more. */
  readonly isOver: boolean;
  /** Why the work failed for good, once its steps are being undone. */
  readonly failure: string | undefined;
  /** Undefined: the step is not done. */
  find(key: string): KeptStep | undefined;
  /** Keys of done steps, in the order in which they ended, without the records of undoing. */
  done(): ReadonlyArray<string>;
  /** How many results are kept, and UTF-16 units of them. */
  size(): { readonly steps: number; readonly chars: number };
  /**
   * Keeps a result. Resolves to true when it is stored, or when nobody will ask for it; to false if
   * nothing is kept, and the next attempt of the work may ask. Rejects with `AgentDiscarded`.
   */
  store(step: DoneStep): Promise<boolean>;
  idempotencyKey(key: string): string;
  /** A step's function is about to run; it runs when this has resolved. */
  begin(): Promise<void> | undefined;
  /** Its function has ended, and its result, if any, is stored. */
  end(): void;
}
