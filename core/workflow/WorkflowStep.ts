/**
 * The parameters of `run(event, step)` (`protocol.md` §7): types only. `Execution` is behind them.
 */
import type { StepConfig, WorkflowDuration } from "./stepConfig.ts";

/** What `run` receives: the params and the instance. */
export interface WorkflowEvent<Params = unknown> {
  readonly payload: Params;
  /** When the instance was started. */
  readonly timestamp: Date;
  readonly instanceId: string;
  /** The name of the binding that started it. */
  readonly workflowName: string;
}

/** The result of `waitForEvent`. */
export interface WorkflowStepEvent<Payload = unknown> {
  readonly type: string;
  readonly payload: Payload;
  readonly timestamp: Date;
}

/** The argument of a step's function. */
export interface StepContext {
  /** An idempotency key: the same in every attempt of this step, in this run of this instance. */
  readonly key: string;
  /** From 1; attempts interrupted by a crash count. */
  readonly attempt: number;
  /** The step's name, and which call of that name it is, from 1. */
  readonly step: { readonly name: string; readonly count: number };
}

/** How a step is undone when its workflow finally fails, before that becomes `errored`. */
export interface StepUndoOptions<T = unknown> {
  /**
   * Undoes the step, if it is done. The undos of a workflow run in reverse order of their steps,
   * each as a step: recorded, with its own `key`, and the step's retries and timeout.
   */
  readonly undo?: (result: T, ctx: StepContext) => unknown;
  /**
   * The reference's form of `undo`, used instead of it: it also runs for a step that failed or had
   * not ended. Retries and timeout are those of `rollbackConfig`.
   */
  readonly rollback?: (context: WorkflowRollbackContext<T>) => unknown;
  /** Retries and timeout of the undo, with the defaults of a step. */
  readonly rollbackConfig?: StepConfig;
}

/** The argument of `rollback`. */
export interface WorkflowRollbackContext<T = unknown> {
  /** The context of the step's last attempt. */
  readonly ctx: StepContext;
  /** The error of the workflow. */
  readonly error: Error;
  /** Undefined if the step failed or has not ended. */
  readonly output: T | undefined;
  /** An idempotency key of the rollback, the same in each attempt. */
  readonly key: string;
}

export type StepFunction<T> = (ctx: StepContext) => T | Promise<T>;

/**
 * The steps of an instance. Each has a name that is unique within `run` and identifies its record.
 */
export interface WorkflowStep<State = unknown> {
  /**
   * Runs `f`, once unless something fails, and records its result, which is JSON. From then on,
   * resolves with the recorded result. Rejects with the error of the last attempt.
   */
  do<T>(name: string, f: StepFunction<T>, undo?: StepUndoOptions<T>): Promise<T>;
  do<T>(
    name: string,
    config: StepConfig,
    f: StepFunction<T>,
    undo?: StepUndoOptions<T>,
  ): Promise<T>;
  /** Waits, at most a year. A crash does not restart the wait. */
  sleep(name: string, duration: WorkflowDuration): Promise<void>;
  /**
   * Waits until a time: a `Date`, or milliseconds since the epoch. A time that has passed does not
   * wait.
   */
  sleepUntil(name: string, time: Date | number): Promise<void>;
  /**
   * An event that arrived earlier counts. Rejects with `WorkflowTimeoutError`; `timeout` is 24
   * hours by default.
   */
  waitForEvent<Payload = unknown>(
    name: string,
    options: { readonly type: string; readonly timeout?: WorkflowDuration },
  ): Promise<WorkflowStepEvent<Payload>>;
  /** Calls the agent's `onWorkflowComplete`. */
  reportComplete(result?: unknown): Promise<void>;
  /** Calls the agent's `onWorkflowError`. */
  reportError(error: unknown): Promise<void>;
  /** Calls the agent's `onWorkflowEvent`. */
  sendEvent(event: unknown): Promise<void>;
  /** Calls the agent's `setState`. */
  updateAgentState(state: State): Promise<void>;
  /** Merges top-level fields into the agent's state. */
  mergeAgentState(partial: Partial<State>): Promise<void>;
  /** Resets the state to the agent's `initialState`. */
  resetAgentState(): Promise<void>;
}
