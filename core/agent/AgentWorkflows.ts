/**
 * The part of `Agent` that starts workflows and follows them (`protocol.md` §7). Between
 * `AgentJobs` and `AgentMail` in the chain of classes. An instance is an actor of its own
 * (`core/runtime/WorkflowRun`); here is what this agent knows of it, in `cf_agents_workflows`.
 *
 * 1. Starts and events go out by the signal lane: durable with the turn that asked, in the order of
 *    the calls.
 * 2. What an instance reports is a durable input of this agent: applied once, in a turn of its own.
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
  /** Of the instance, among all of its workflow; default `wf_` and random. */
  readonly id?: string;
  readonly metadata?: Readonly<Record<string, unknown>>;
  /** The reference's; here an instance finds its agent by itself. */
  readonly agentBinding?: string;
  /** The reference's; instances are kept until they are destroyed. */
  readonly retention?: unknown;
}

interface CallbackBase {
  readonly workflowName: string;
  readonly workflowId: string;
  /** Milliseconds since the epoch. */
  readonly timestamp: number;
}
export interface WorkflowProgressCallback<Progress = unknown> extends CallbackBase {
  readonly type: "progress";
  readonly progress: Progress;
}
export interface WorkflowCompleteCallback<Result = unknown> extends CallbackBase {
  readonly type: "complete";
  readonly result?: Result;
}
export interface WorkflowErrorCallback extends CallbackBase {
  readonly type: "error";
  readonly error: string;
}
export interface WorkflowEventCallback<Event = unknown> extends CallbackBase {
  readonly type: "event";
  readonly event: Event;
}
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

export class AgentWorkflows extends AgentJobs {
  #table: WorkflowTable | undefined;

  get #workflows(): WorkflowTable {
    return (this.#table ??= new WorkflowTable(runtimeOf(this.ctx)));
  }

  /**
   * Starts a workflow and follows it; its id. Durable with this turn: the instance begins when that
   * is stored, whatever happens to this host. Rejects for a name that is no workflow, an id that is
   * followed already, params that are not JSON.
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

  getWorkflow(workflowId: string): WorkflowInfo | undefined {
    return this.#workflows.get(workflowId);
  }

  /** Newest first unless told otherwise; a page by `cursor`, or by `limit` and `offset`. */
  getWorkflows(criteria: WorkflowQueryCriteria = {}): Promise<WorkflowPage> & WorkflowPage {
    const page = this.#workflows.page(criteria);
    return Object.assign(Promise.resolve(page), page);
  }

  /** Lets a workflow that waits for approval go on: `waitForApproval` gives this metadata. */
  async approveWorkflow(workflowId: string, given?: unknown): Promise<void> {
    const { reason, metadata } = readApproval(given);
    this.#send(workflowId, APPROVAL, { approved: true, reason, metadata });
    runtimeOf(this.ctx).emit("workflow:approved", { workflowId, reason });
  }

  /** `waitForApproval` rejects, with this reason. */
  async rejectWorkflow(
    workflowId: string,
    given?: string | { readonly reason?: string },
  ): Promise<void> {
    const reason = typeof given === "object" ? given.reason : given;
    this.#send(workflowId, APPROVAL, { approved: false, reason });
    runtimeOf(this.ctx).emit("workflow:rejected", { workflowId, reason });
  }

  /** For `step.waitForEvent`; kept until a step asks for it. */
  async sendWorkflowEvent(
    workflowName: string,
    workflowId: string,
    event: { readonly type: string; readonly payload?: unknown },
  ): Promise<void> {
    this.#sendEvent(this.#binding(workflowName), workflowId, event.type, event.payload);
  }

  /** The instance's own word, and what is followed here is brought up to it. */
  async getWorkflowStatus(workflowName: string, workflowId: string): Promise<InstanceStatus> {
    const status = await this.#binding(workflowName).get(workflowId).status();
    const row = this.#workflows.get(workflowId);
    // Its start is still on its way.
    if (status.status === "unknown" && row?.status === "queued") return { status: "queued" };
    this.#refresh(workflowId, status);
    return status;
  }

  async terminateWorkflow(workflowId: string): Promise<void> {
    await this.#control(workflowId, "terminate", "workflow:terminated");
  }
  /** Takes effect where the next step begins. */
  async pauseWorkflow(workflowId: string): Promise<void> {
    await this.#control(workflowId, "pause", "workflow:paused");
  }
  async resumeWorkflow(workflowId: string): Promise<void> {
    await this.#control(workflowId, "resume", "workflow:resumed");
  }
  /** From the first step, with the same params. */
  async restartWorkflow(
    workflowId: string,
    { resetTracking = true }: { readonly resetTracking?: boolean } = {},
  ): Promise<void> {
    await this.#control(workflowId, "restart", "workflow:restarted");
    if (resetTracking) this.#workflows.reset(workflowId);
  }

  /** Follows it no more; the instance goes on. Whether it was followed. */
  deleteWorkflow(workflowId: string): boolean {
    return this.#workflows.remove(workflowId);
  }
  /** How many. */
  deleteWorkflows(
    criteria: WorkflowQueryCriteria & { readonly createdBefore?: Date } = {},
  ): number {
    return this.#workflows.removeAll(criteria);
  }
  /**
   * After the binding was renamed: what is followed under the old name is found under the new one.
   * How many.
   */
  migrateWorkflowBinding(before: string, after: string): number {
    this.#binding(after);
    return this.#workflows.rename(before, after);
  }

  // Hooks, for subclasses. One that declares two parameters or more gets `(workflowName,
  // workflowId, value)`.

  onWorkflowProgress(_callback: WorkflowProgressCallback): void | Promise<void> {}
  onWorkflowComplete(_callback: WorkflowCompleteCallback): void | Promise<void> {}
  onWorkflowError(_callback: WorkflowErrorCallback): void | Promise<void> {}
  onWorkflowEvent(_callback: WorkflowEventCallback): void | Promise<void> {}
  /** Of any type; calls the hook of its own. */
  async onWorkflowCallback(callback: WorkflowCallback): Promise<void> {
    const hook = this[HOOKS[callback.type]] as (...args: unknown[]) => unknown;
    const { workflowName, workflowId } = callback;
    const value = (callback as unknown as Readonly<Record<string, unknown>>)[VALUES[callback.type]];
    await (hook.length >= POSITIONAL_MIN
      ? hook.call(this, workflowName, workflowId, value)
      : hook.call(this, callback));
  }

  /** The runtime's entry (rule 2). */
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
/** Progress moves an instance from `queued` or `waiting` to `running`, and from nothing else. */
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
