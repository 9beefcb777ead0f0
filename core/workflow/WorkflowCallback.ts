/**
 * What an agent's workflow hooks receive: the reports of its instances, and the choice of the hook
 * for each. Pure.
 */

interface CallbackBase {
  /** Name of the workflow's binding. */
  readonly workflowName: string;
  /** Id of the instance. */
  readonly workflowId: string;
  /** Milliseconds since the epoch. */
  readonly timestamp: number;
}
/** An instance reported progress. */
export interface WorkflowProgressCallback<Progress = unknown> extends CallbackBase {
  readonly type: "progress";
  readonly progress: Progress;
}
/** An instance completed, with its result, if any. */
export interface WorkflowCompleteCallback<Result = unknown> extends CallbackBase {
  readonly type: "complete";
  readonly result?: Result;
}
/** An instance failed; `error` is the message. */
export interface WorkflowErrorCallback extends CallbackBase {
  readonly type: "error";
  readonly error: string;
}
/** An instance sent an event. */
export interface WorkflowEventCallback<Event = unknown> extends CallbackBase {
  readonly type: "event";
  readonly event: Event;
}
/** A report of an instance. */
export type WorkflowCallback =
  | WorkflowProgressCallback
  | WorkflowCompleteCallback
  | WorkflowErrorCallback
  | WorkflowEventCallback;

/**
 * The first argument of a workflow hook: the report, or the workflow's name for a hook with three
 * parameters. It is an intersection of both, so that a class may override the hook in either form.
 */
export type WorkflowHookArgument<Callback extends WorkflowCallback> = Callback & string;

/** The hook for each type, and the field of its value. */
const HOOKS = {
  progress: "onWorkflowProgress",
  complete: "onWorkflowComplete",
  error: "onWorkflowError",
  event: "onWorkflowEvent",
} as const;
const VALUES = {
  progress: "progress",
  complete: "result",
  error: "error",
  event: "event",
} as const;

/** A callback with the value under the field of its type. */
export const callbackOf = (
  common: CallbackBase & Pick<WorkflowCallback, "type">,
  value: unknown,
): WorkflowCallback => ({ ...common, [VALUES[common.type]]: value }) as unknown as WorkflowCallback;

/** Two parameters: the reference's positional form. */
const POSITIONAL_MIN = 2;

/**
 * Calls the hook of the callback's type. A hook with two or more parameters receives
 * `(workflowName, workflowId, value)`. Settles as the hook does.
 */
export async function callWorkflowHook(
  hooks: Readonly<Record<(typeof HOOKS)[keyof typeof HOOKS], (...args: never[]) => unknown>>,
  callback: WorkflowCallback,
): Promise<void> {
  const hook = hooks[HOOKS[callback.type]] as (...args: unknown[]) => unknown;
  const { workflowName, workflowId } = callback;
  const value = (callback as unknown as Readonly<Record<string, unknown>>)[VALUES[callback.type]];
  await (hook.length >= POSITIONAL_MIN
    ? hook.call(hooks, workflowName, workflowId, value)
    : hook.call(hooks, callback));
}
