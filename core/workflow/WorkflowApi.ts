/**
 * The workflow methods of `Agent`: start instances and track them (`protocol.md` §7). An instance
 * is an actor (`core/runtime/WorkflowRun`); the agent's table `cf_agents_workflows` tracks its
 * instances.
 *
 * 1. Starts and events leave through the signal lane: durable with the turn that sends them, in the
 *    order of the calls.
 * 2. A report of an instance is a durable input of this agent: applied once, as a turn.
 */
import type { CallbackSignal, StateSignal, WorkflowSignal } from "../../schemas/WorkflowSignal.ts";
import { checkOptions } from "../errors/checkOptions.ts";
import { toJson } from "../journal/jsonText.ts";
import type { AgentWork } from "../turn/AgentWork.ts";
import type { WorkflowAnswerOptions } from "../approval/Approval.ts";
import { checkAnswer, checkBy, type GivenAnswer } from "../approval/checkAnswer.ts";
import { answerType } from "./AwaitedEvents.ts";
import { ENDED, type WorkflowStatus } from "./RunTable.ts";
import type { SignalLane } from "./SignalLane.ts";
import type { WorkflowBinding } from "./WorkflowBinding.ts";
import { callbackOf, type WorkflowCallback } from "./WorkflowCallback.ts";
import type { ControlAction, InstanceStatus } from "./WorkflowCalls.ts";
import {
  WorkflowTable,
  type RunWorkflowOptions,
  type WorkflowInfo,
  type WorkflowPage,
  type WorkflowDeleteCriteria,
  type WorkflowQueryCriteria,
} from "./WorkflowTable.ts";

/** The user's object, which a report changes and calls. */
export interface WorkflowOwner {
  readonly state: unknown;
  readonly initialState: unknown;
  setState(state: never): void;
  onWorkflowCallback(callback: WorkflowCallback): Promise<void>;
}

/** The agent that starts workflows. */
export interface WorkflowApiAgent extends Pick<
  AgentWork,
  "id" | "time" | "log" | "query" | "emit"
> {
  readonly agent: WorkflowOwner;
  readonly signals: Pick<SignalLane, "binding" | "send">;
}

const APPROVAL = "approval";
const RUN_OPTIONS: ReadonlySet<string> = new Set<keyof RunWorkflowOptions>([
  "id", "metadata", "agentBinding", "retention",
]); // prettier-ignore
const ANSWER_OPTIONS: ReadonlySet<string> = new Set<keyof WorkflowAnswerOptions>([
  "approval", "by",
]); // prettier-ignore

/** Its public methods are those of `Agent`, which documents them. */
export class WorkflowApi {
  readonly #agent: WorkflowApiAgent;
  readonly #table: WorkflowTable;

  constructor(agent: WorkflowApiAgent) {
    this.#agent = agent;
    this.#table = new WorkflowTable(agent);
  }

  run(workflowName: string, params: unknown, options: RunWorkflowOptions): string {
    checkOptions("runWorkflow", options, RUN_OPTIONS);
    const { id, time, signals } = this.#agent;
    const { id: workflowId = `wf_${time.id()}`, metadata } = options;
    const target = this.#binding(workflowName).idOf(workflowId);
    const nowMs = time.nowMs();
    toJson(params, "runWorkflow: the params");
    this.#table.add({ workflowId, workflowName, metadata });
    signals.send(target, `start:${id.class}/${id.name}/${nowMs}`, {
      kind: "start",
      workflowName,
      agent: [id.class, id.name],
      ...(params === undefined ? {} : { params }),
      time: nowMs,
    });
    this.#agent.emit("workflow:start", { workflowId, workflowName });
    return workflowId;
  }

  get(workflowId: string): WorkflowInfo | undefined {
    return this.#table.get(workflowId);
  }

  page(criteria: WorkflowQueryCriteria): WorkflowPage {
    return this.#table.page(criteria);
  }

  approve(workflowId: string, given: unknown, options: WorkflowAnswerOptions): void {
    const { reason, metadata } = readApproval(given);
    this.#answer(workflowId, { approved: true, reason, metadata }, options);
    this.#agent.emit("workflow:approved", { workflowId, reason });
  }

  reject(
    workflowId: string,
    given: string | { readonly reason?: string } | undefined,
    options: WorkflowAnswerOptions,
  ): void {
    const reason = typeof given === "object" ? given.reason : given;
    this.#answer(workflowId, { approved: false, reason }, options);
    this.#agent.emit("workflow:rejected", { workflowId, reason });
  }

  send(
    workflowName: string,
    workflowId: string,
    { type, payload }: { readonly type: string; readonly payload?: unknown },
  ): void {
    const { signals, time, emit } = this.#agent;
    toJson(payload, "a workflow's event: the payload");
    signals.send(this.#binding(workflowName).idOf(workflowId), `event:${time.id()}`, {
      kind: "event",
      type,
      ...(payload === undefined ? {} : { payload }),
      time: time.nowMs(),
    });
    emit.call(this.#agent, "workflow:event", { workflowId, eventType: type });
  }

  async status(workflowName: string, workflowId: string): Promise<InstanceStatus> {
    const before = this.#table.get(workflowId)?.status;
    const status = await this.#binding(workflowName).instance(workflowId).status();
    const row = this.#table.get(workflowId);
    // The start has not reached the instance yet.
    if (status.status === "unknown" && row?.status === "queued") return { status: "queued" };
    this.#refresh(workflowId, status, before);
    return status;
  }

  async control(workflowId: string, action: ControlAction): Promise<void> {
    const { workflowName, status: before } = this.#tracked(workflowId);
    const status = await this.#binding(workflowName).instance(workflowId).control(action);
    this.#refresh(workflowId, status, before);
    this.#agent.emit(CONTROL_EVENTS[action], { workflowId, workflowName });
  }

  async restart(
    workflowId: string,
    { resetTracking = true }: { readonly resetTracking?: boolean },
  ): Promise<void> {
    await this.control(workflowId, "restart");
    if (resetTracking) this.#table.reset(workflowId);
  }

  forget(workflowId: string): boolean {
    return this.#table.remove(workflowId);
  }

  forgetAll(criteria: WorkflowDeleteCriteria): number {
    return this.#table.removeAll(criteria);
  }

  rename(before: string, after: string): number {
    this.#binding(after);
    return this.#table.rename(before, after);
  }

  /** Applies an instance's signal (rule 2). Rejects with what the hook throws. */
  async receive(signal: WorkflowSignal): Promise<void> {
    if (signal.kind === "callback") return this.#takeCallback(signal);
    if (signal.kind === "state") return this.#takeState(signal);
    this.#agent.log.warn("a signal for a workflow reached an agent and was dropped", {
      kind: signal.kind,
    });
  }

  async #takeCallback(signal: CallbackSignal): Promise<void> {
    const { type, workflowId, workflowName, time: timestamp, value } = signal;
    const table = this.#table;
    const ended = ["terminated", "paused"] as const;
    if (type === "progress")
      table.setStatus(workflowId, "running", { unless: NOT_BEGUN_OR_WAITING });
    if (type === "complete") table.setStatus(workflowId, "complete", { unless: ended });
    if (type === "error")
      table.setStatus(workflowId, "errored", { unless: ended, error: String(value) });
    const callback = callbackOf({ workflowName, workflowId, timestamp, type }, value);
    await this.#agent.agent.onWorkflowCallback(callback);
  }

  #takeState({ change, value }: StateSignal): void {
    const { agent } = this.#agent;
    const set = (state: unknown): void => agent.setState(state as never);
    if (change === "set") set(value);
    else if (change === "merge")
      set({ ...(agent.state as object | undefined), ...(value as object | undefined) });
    else set(isUnset(agent.initialState) ? undefined : agent.initialState);
  }

  #binding(name: string): WorkflowBinding {
    const binding = this.#agent.signals.binding(name);
    if (binding === undefined)
      throw new Error(`Workflow binding '${name}' not found in environment`);
    return binding;
  }

  #tracked(workflowId: string): WorkflowInfo {
    const row = this.#table.get(workflowId);
    if (row === undefined) throw new Error(`Workflow ${workflowId} not found in tracking table`);
    return row;
  }

  #answer(workflowId: string, answer: GivenAnswer, options: WorkflowAnswerOptions): void {
    const call = answer.approved ? "approveWorkflow" : "rejectWorkflow";
    checkOptions(call, options, ANSWER_OPTIONS);
    const { approval, by } = options;
    const { workflowName } = this.#tracked(workflowId);
    if (by !== undefined) checkBy(by);
    const payload = { ...answer, ...(by === undefined ? {} : { by }) };
    if (approval !== undefined) checkAnswer(payload);
    const type = approval === undefined ? APPROVAL : answerType(approval);
    this.send(workflowName, workflowId, { type, payload });
  }

  /** `before`: the tracked status when the instance was asked. A report of its end is newer. */
  #refresh(
    workflowId: string,
    { status, error }: InstanceStatus,
    before: WorkflowStatus | undefined,
  ): void {
    const tracked = this.#table.get(workflowId)?.status;
    if (tracked === status) return;
    if (tracked !== undefined && tracked !== before && ENDED.has(tracked)) return;
    const change = error === undefined ? {} : { error: error.message };
    this.#table.setStatus(workflowId, status, change);
  }
}

/** The observability event of each control action. */
const CONTROL_EVENTS: Readonly<Record<ControlAction, string>> = {
  terminate: "workflow:terminated",
  pause: "workflow:paused",
  resume: "workflow:resumed",
  restart: "workflow:restarted",
};

/** The statuses that progress does not change to `running`: all but `queued` and `waiting`. */
const NOT_BEGUN_OR_WAITING: ReadonlyArray<WorkflowStatus> = [
  "running", "paused", "errored", "terminated", "complete", "waitingForPause", "unknown",
]; // prettier-ignore

/** The mark of an unset `initialState` (`Agent`). */
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
