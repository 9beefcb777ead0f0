/**
 * The parameters of `this.step` and `this.fetch`. `stepOptions` checks the options, `AgentSteps`
 * runs steps.
 */
import type { RetryOptions } from "../retry/RetryOptions.ts";

/** What the function of a step receives. */
export interface Step {
  readonly name: string;
  /**
   * Identifies this step of this input of this agent: the same in each attempt, on each host. An
   * idempotency key for what the step calls; printable ASCII, at most 255 characters.
   */
  readonly key: string;
  /** Number of this attempt since the step was begun in this run, from 1. */
  readonly attempt: number;
  /** Fires when the attempt has timed out, and when the agent leaves memory. */
  readonly signal: AbortSignal;
}

/** Options of `step`. */
export interface StepOptions<Result = unknown> extends AttemptOptions {
  /**
   * Undoes the step, if it is done, when its turn or fiber fails for good, before that is recorded:
   * the undos run in reverse order, each as a step of its own, with the step's `retry` and
   * `timeout`. Like the function of a step it can't write to the agent.
   */
  readonly undo?: (result: Result, step: Step) => unknown;
}

/** How a step is tried. */
interface AttemptOptions {
  /** Overrides the class's `static options.retry`. Attempts, the first included: 3 by default. */
  readonly retry?: RetryOptions;
  /** Time limit of an attempt: milliseconds, or text like `"30 seconds"`. Default 10 minutes. */
  readonly timeout?: number | string;
}

/** Options of `fetch`: those of the platform, and these. */
export interface FetchOptions extends RequestInit, AttemptOptions {
  /**
   * Keeps the request with its answer, without credentials: `agents rerun` compares it. Default:
   * the class's `static options.record`.
   */
  readonly record?: boolean;
}
