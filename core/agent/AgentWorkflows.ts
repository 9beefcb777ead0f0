/**
 * The part of `Agent` that starts workflows and tracks them (`protocol.md` §7). Between `AgentJobs`
 * and `AgentMail` in the chain of classes. An instance is an actor of its own
 * (`core/runtime/WorkflowRun`); the agent's table `cf_agents_workflows` holds what it knows of its
 * instances.
 *
 * 1. Starts and events leave through the signal lane: durable with the turn that sends them, in the
 *    order of the calls.
 * 2. A report of an instance is a durable input of this agent: applied once, in a turn of its own.
 */
import type { CallbackSignal, StateSignal, WorkflowSignal } from "../../schemas/WorkflowSignal.ts";
import type { WorkflowBinding } from "../workflow/WorkflowBinding.ts";
import type { ControlAction, InstanceStatus } from "../workflow/WorkflowCalls.ts";
import type { WorkflowStatus } from "../workflow/RunTable.ts";
import {
  WorkflowTable,
  type WorkflowInfo,
  type WorkflowPage,
  type WorkflowQueryCriteria,
} from "../workflow/WorkflowTable.ts";
import { RECEIVE } from "../input/runWorkflowSignal.ts";
import { AgentJobs } from "./AgentJobs.ts";
import { runtimeOf } from "./AgentContext.ts";

export interface RunWorkflowOptions {
  /** Id of the instance, unique within the workflow. Default: `wf_` and a random id. */
  readonly id?: string;
  /** JSON that `getWorkflow` and `getWorkflows` return with the instance. Default: none. */
  readonly metadata?: Readonly<Record<string, unknown>>;
  /** Accepted and ignored: an instance knows its agent. */
  readonly agentBinding?: string;
  /** Accepted and ignored: instances are kept until they are destroyed. */
  readonly retention?: unknown;
}

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
/** An instance completed, with a result where it returned one. */
export interface WorkflowCompleteCallback<Result = unknown> extends CallbackBase {
  readonly type: "complete";
  readonly result?: Result;
}
/** An instance failed; `error` is the message. */
export interface WorkflowErrorCallback extends CallbackBase {
  readonly type: "error";
  readonly error: string;
}
/** An instance sent an event of its own. */
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

const APPROVAL = "approval";

/** See `Agent`. */
export class AgentWorkflows extends AgentJobs {
  #table: WorkflowTable | undefined;

  get #workflows(): WorkflowTable {
    return (this.#table ??= new WorkflowTable(runtimeOf(this.ctx)));
  }

  /**
   * Starts a workflow instance and tracks it. Durable with this turn: the instance begins once the
   * turn is stored, even if this host ends. Resolves to the instance's id. Rejects for a name that
   * is not a workflow's binding, an id that is already tracked, and params that are not JSON.
   */
  async runWorkflow<Params = unknown>(
    workflowName: string,
    params?: Params,
    options: RunWorkflowOptions = {},
  ): Promise<string> {
    const runtime = runtimeOf(this.ctx);
    const binding = this.#binding(workflowName);
    const { id: workflowId = `wf_${runtime.time.id()}`, metadata } = options;
    const target = binding.idOf(workflowId);
    const time = runtime.time.nowMs();
    this.#workflows.add({ workflowId, workflowName, metadata });
    runtime.signals.send(target, `start:${runtime.id.class}/${runtime.id.name}/${time}`, {
      kind: "start",
      workflowName,
      agent: [runtime.id.class, runtime.id.name],
      ...(params === undefined ? {} : { params }),
      time,
    });
    runtime.emit("workflow:start", { workflowId, workflowName });
    return workflowId;
  }

  /** A tracked instance as this agent knows it; undefined without one. */
  getWorkflow(workflowId: string): WorkflowInfo | undefined {
    return this.#workflows.get(workflowId);
  }

  /**
   * A page of tracked instances, newest first by default; by `cursor`, or by `limit` and `offset`.
   * The result is the page and also a promise of it.
   */
  getWorkflows(criteria: WorkflowQueryCriteria = {}): Promise<WorkflowPage> & WorkflowPage {
    const page = this.#workflows.page(criteria);
    return Object.assign(Promise.resolve(page), page);
  }

  /**
   * Approves an instance: its `waitForApproval` resolves to this metadata. Rejects for an untracked
   * id.
   */
  async approveWorkflow(workflowId: string, given?: unknown): Promise<void> {
    const { reason, metadata } = readApproval(given);
    this.#send(workflowId, APPROVAL, { approved: true, reason, metadata });
    runtimeOf(this.ctx).emit("workflow:approved", { workflowId, reason });
  }

  /**
   * Rejects an instance: its `waitForApproval` rejects with this reason. Rejects for an untracked
   * id.
   */
  async rejectWorkflow(
    workflowId: string,
    given?: string | { readonly reason?: string },
  ): Promise<void> {
    const reason = typeof given === "object" ? given.reason : given;
    this.#send(workflowId, APPROVAL, { approved: false, reason });
    runtimeOf(this.ctx).emit("workflow:rejected", { workflowId, reason });
  }

  /**
   * Sends an event for `step.waitForEvent`; it is kept until a step waits for it. Rejects for an
   * unknown workflow.
   */
  async sendWorkflowEvent(
    workflowName: string,
    workflowId: string,
    event: { readonly type: string; readonly payload?: unknown },
  ): Promise<void> {
    this.#sendEvent(this.#binding(workflowName), workflowId, event.type, event.payload);
  }

  /**
   * Asks the instance for its status and updates the tracked one. Rejects for an unknown workflow.
   */
  async getWorkflowStatus(workflowName: string, workflowId: string): Promise<InstanceStatus> {
    const status = await this.#binding(workflowName).get(workflowId).status();
    const row = this.#workflows.get(workflowId);
    // Its start is still on its way.
    if (status.status === "unknown" && row?.status === "queued") return { status: "queued" };
    this.#refresh(workflowId, status);
    return status;
  }

  /** Ends an instance. Rejects for an untracked id. */
  async terminateWorkflow(workflowId: string): Promise<void> {
    await this.#control(workflowId, "terminate", "workflow:terminated");
  }
  /** Pauses an instance before its next step. Rejects for an untracked id. */
  async pauseWorkflow(workflowId: string): Promise<void> {
    await this.#control(workflowId, "pause", "workflow:paused");
  }
  /** Resumes a paused instance. Rejects for an untracked id. */
  async resumeWorkflow(workflowId: string): Promise<void> {
    await this.#control(workflowId, "resume", "workflow:resumed");
  }
  /**
   * Restarts an instance from its first step, with the same params. Rejects for an untracked id.
   */
  async restartWorkflow(
    workflowId: string,
    { resetTracking = true }: { readonly resetTracking?: boolean } = {},
  ): Promise<void> {
    await this.#control(workflowId, "restart", "workflow:restarted");
    if (resetTracking) this.#workflows.reset(workflowId);
  }

  /** Stops tracking an instance, which continues to run. Returns whether it was tracked. */
  deleteWorkflow(workflowId: string): boolean {
    return this.#workflows.remove(workflowId);
  }
  /** Stops tracking the instances that meet the criteria. Returns their number. */
  deleteWorkflows(
    criteria: WorkflowQueryCriteria & { readonly createdBefore?: Date } = {},
  ): number {
    return this.#workflows.removeAll(criteria);
  }
  /**
   * After a binding was renamed: moves tracked instances from the old name to the new one. Returns
   * their number.
   */
  migrateWorkflowBinding(before: string, after: string): number {
    this.#binding(after);
    return this.#workflows.rename(before, after);
  }

  // Hooks, for subclasses. One with two or more parameters receives `(workflowName, workflowId,
  // value)`.

  /** Hook: an instance reported progress. */
  onWorkflowProgress(_callback: WorkflowProgressCallback): void | Promise<void> {}
  /** Hook: an instance completed. */
  onWorkflowComplete(_callback: WorkflowCompleteCallback): void | Promise<void> {}
  /** Hook: an instance failed. */
  onWorkflowError(_callback: WorkflowErrorCallback): void | Promise<void> {}
  /** Hook: an instance sent an event of its own. */
  onWorkflowEvent(_callback: WorkflowEventCallback): void | Promise<void> {}
  /** Hook: a report of any type. Default: calls the hook of its type. */
  async onWorkflowCallback(callback: WorkflowCallback): Promise<void> {
    const hook = this[HOOKS[callback.type]] as (...args: unknown[]) => unknown;
    const { workflowName, workflowId } = callback;
    const value = (callback as unknown as Readonly<Record<string, unknown>>)[VALUES[callback.type]];
    await (hook.length >= POSITIONAL_MIN
      ? hook.call(this, workflowName, workflowId, value)
      : hook.call(this, callback));
  }

  /** For the runtime (rule 2). */
  async [RECEIVE](signal: WorkflowSignal): Promise<void> {
    if (signal.kind === "callback") return this.#takeCallback(signal);
    if (signal.kind === "state") return this.#takeState(signal);
    runtimeOf(this.ctx).log.warn("a signal for a workflow came to an agent; it is dropped", {
      kind: signal.kind,
    });
  }

  async #takeCallback(signal: CallbackSignal): Promise<void> {
    const { type, workflowId, workflowName, time, value } = signal;
    const table = this.#workflows;
    const ended = ["terminated", "paused"] as const;
    if (type === "progress")
      table.setStatus(workflowId, "running", { unless: NOT_BEGUN_OR_WAITING });
    if (type === "complete") table.setStatus(workflowId, "complete", { unless: ended });
    if (type === "error")
      table.setStatus(workflowId, "errored", { unless: ended, error: String(value) });
    const common = { workflowName, workflowId, timestamp: time };
    await this.onWorkflowCallback({
      ...common,
      type,
      [VALUES[type]]: value,
    } as unknown as WorkflowCallback);
  }

  #takeState({ change, value }: StateSignal): void {
    const agent = this as unknown as {
      readonly state: unknown;
      readonly initialState: unknown;
      setState(state: unknown): void;
    };
    if (change === "set") agent.setState(value);
    else if (change === "merge")
      agent.setState({ ...(agent.state as object | undefined), ...(value as object | undefined) });
    else agent.setState(isUnset(agent.initialState) ? undefined : agent.initialState);
  }

  #binding(name: string): WorkflowBinding {
    const binding = runtimeOf(this.ctx).signals.binding(name);
    if (binding === undefined)
      throw new Error(`Workflow binding '${name}' not found in environment`);
    return binding;
  }

  #followed(workflowId: string): WorkflowInfo {
    const row = this.#workflows.get(workflowId);
    if (row === undefined) throw new Error(`Workflow ${workflowId} not found in tracking table`);
    return row;
  }

  #send(workflowId: string, type: string, payload: unknown): void {
    const { workflowName } = this.#followed(workflowId);
    this.#sendEvent(this.#binding(workflowName), workflowId, type, payload);
  }

  #sendEvent(binding: WorkflowBinding, workflowId: string, type: string, payload: unknown): void {
    const { signals, time, emit } = runtimeOf(this.ctx);
    signals.send(binding.idOf(workflowId), `event:${time.id()}`, {
      kind: "event",
      type,
      ...(payload === undefined ? {} : { payload }),
      time: time.nowMs(),
    });
    emit.call(runtimeOf(this.ctx), "workflow:event", { workflowId, eventType: type });
  }

  async #control(workflowId: string, action: ControlAction, event: string): Promise<void> {
    const { workflowName } = this.#followed(workflowId);
    const status = await this.#binding(workflowName).get(workflowId).control(action);
    this.#refresh(workflowId, status);
    runtimeOf(this.ctx).emit(event, { workflowId, workflowName });
  }

  #refresh(workflowId: string, { status, error }: InstanceStatus): void {
    if (this.#workflows.get(workflowId)?.status === status) return;
    const told = error === undefined ? {} : { error: error.message };
    this.#workflows.setStatus(workflowId, status, told);
  }
}

/** Two parameters: the reference's positional form. */
const POSITIONAL_MIN = 2;
/** Progress moves an instance to `running` from `queued` and `waiting` only: not from these. */
const NOT_BEGUN_OR_WAITING: ReadonlyArray<WorkflowStatus> = [
  "running", "paused", "errored", "terminated", "complete", "waitingForPause", "unknown",
]; // prettier-ignore

/** An `initialState` that the class does not set (`Agent`). */
const isUnset = (value: unknown): boolean => typeof value === "symbol";

/**
 * An object with no keys but `reason` and `metadata` is the options form; anything else is the
 * metadata.
 */
function readApproval(given: unknown): {
  readonly reason?: string | undefined;
  readonly metadata?: unknown;
} {
  if (typeof given !== "object" || given === null) return { metadata: given };
  const keys = Object.keys(given);
  const options = keys.length > 0 && keys.every((key) => key === "reason" || key === "metadata");
  return options ? (given as { reason?: string; metadata?: unknown }) : { metadata: given };
}
