/**
 * One workflow instance: an agent named by the workflow's class and id. Its database has the record
 * of every step (`RunTable`), from which `Execution` replays `run()`.
 *
 * 1. While there is work, the instance's queue has a `drive`. Whichever host owns the instance runs
 *    it from where the record ends. A drive is done when the run has ended or only waits.
 * 2. Each wait has a schedule, whose `wake` queues a drive again. So does each signal.
 * 3. Drives and wakes have unlimited attempts, and never become dead letters.
 * 4. Nothing is written in a drive's own turn: a durable turn's writes wait for its end.
 *
 * Fed by signals (`SignalLane`) and stubs (`WorkflowBinding`); notifies its agent by signals.
 */
import { jsonText } from "../journal/jsonText.ts";
import { agentId } from "../../schemas/Address.ts";
import type { StartSignal, WorkflowSignal } from "../../schemas/WorkflowSignal.ts";
import { Agent } from "../agent/Agent.ts";
import type { AgentContext } from "../agent/AgentContext.ts";
import { runtimeOf } from "../agent/RuntimeContext.ts";
import type { AgentStub } from "../namespace/AgentStub.ts";
import { AgentNamespace } from "../namespace/AgentNamespace.ts";
import { makeStub } from "../namespace/makeStub.ts";
import type { AgentRuntime } from "../agent/AgentRuntime.ts";
import { RECEIVE } from "../input/runWorkflowSignal.ts";
import { checkSize } from "../step/stepResult.ts";
import { AgentDestroyed, AgentDiscarded } from "../errors/errors.ts";
import { AwaitedEvents } from "../workflow/AwaitedEvents.ts";
import { describeThrown, type StoredError } from "../workflow/errors.ts";
import { Execution } from "../workflow/Execution.ts";
import { RunSignals } from "../workflow/RunSignals.ts";
import type { Arrival } from "../workflow/StepWaits.ts";
import { ENDED, RunTable, type RunRecord, type WorkflowStatus } from "../workflow/RunTable.ts";
import { REPORT_ERROR, Steps } from "../workflow/Steps.ts";
import { Undos } from "../workflow/Undos.ts";
import { checkDeaths } from "../workflow/stepFacts.ts";
import { Wakes } from "../workflow/Wakes.ts";
import type { WorkflowClass, WorkflowEntrypoint } from "../workflow/WorkflowEntrypoint.ts";
import { workflowContext } from "./workflowContext.ts";
import type {
  ControlAction,
  InstanceStatus,
  WorkflowCalls,
  WorkflowTerminateOptions,
} from "../workflow/WorkflowCalls.ts";
import { messageOf, readable, stackOf } from "../errors/thrown.ts";
import { defined } from "../collections/defined.ts";

/** Rule 3: more than a host could spend in its life. */
const WITHOUT_END = { maxAttempts: 1_000_000_000, baseDelayMs: 100, maxDelayMs: 5_000 } as const;
/** Names it in errors. */
const RESULT = "the result of the workflow";
/** Id of the one queue item. */
const DRIVE = "drive";
/**
 * How long a stub's call waits for the signal that starts the instance. The signal passes commits
 * and a lane, so the call may arrive first.
 */
const START_WAIT_MS = 20_000;

export abstract class WorkflowRun extends Agent implements WorkflowCalls {
  // A drive lasts as long as the steps that it waits for, and each of those has its own timeout.
  static override options = { retry: WITHOUT_END, hibernateAfterSeconds: 10, turnSeconds: 0 };

  abstract readonly workflowClass: WorkflowClass;
  readonly #runtime: AgentRuntime;
  readonly #table: RunTable;
  readonly #wakes: Wakes;
  readonly #events: AwaitedEvents;
  readonly #out: RunSignals;
  #execution: Execution | undefined;
  #driving = false;
  #begun: Array<() => void> = [];

  constructor(ctx: AgentContext, env: Record<string, unknown>) {
    super(ctx, env);
    this.#runtime = runtimeOf(ctx);
    this.#table = new RunTable(this.#runtime);
    this.#wakes = new Wakes(this.#runtime, WITHOUT_END);
    this.#out = new RunSignals(this.#runtime, () => `${this.workflowClass.name}/${this.name}`);
    const { approvals } = this.#runtime.apis;
    this.#events = new AwaitedEvents(this.#table, approvals, this.#runtime.log);
    approvals.onDecided(({ key }) => key !== null && this.#heard({ key }));
    // The agent that starts a workflow emits the events about it.
    this.observability = undefined;
  }

  // Incoming signals

  async [RECEIVE](signal: WorkflowSignal): Promise<void> {
    if (signal.kind === "start") return this.#start(signal);
    if (signal.kind === "event") return this.#takeEvent(signal.type, signal.payload, signal.time);
    this.#runtime.log.warn("a signal that no workflow instance expects was dropped", {
      kind: signal.kind,
    });
  }

  #start(signal: StartSignal): void {
    const { workflowName, agent, params, time } = signal;
    const run = this.#table.run();
    if (run === undefined) {
      this.#table.begin({ workflowName, agent, params, startedMs: time });
      this.#push();
      for (const resolve of this.#begun.splice(0)) resolve();
      return;
    }
    // A repeated start, later than the done set remembers.
    if (String(run.agent) === String(agent) && run.startedMs === time) return;
    const exists = `${this.#title} already exists`;
    this.#out.callback({ ...run, workflowName, agent }, `start:${time}`, "error", exists);
  }

  #takeEvent(type: string, payload: unknown, timeMs: number): void {
    const run = this.#table.run();
    if (run !== undefined && ENDED.has(run.status)) {
      this.#runtime.log.warn("an event for a workflow that is not running was dropped", { type });
      return;
    }
    // The start may arrive later: an input that can't be read, or has failed, is overtaken.
    this.#events.arrive(type, payload, timeMs);
    if (run !== undefined) this.#heard({ eventType: type });
  }

  /** Something arrived that a step may wait for. */
  #heard(arrival: Arrival): void {
    this.#push();
    this.#runtime.afterCommit(() => this.#execution?.waits.check(arrival));
  }

  // Incoming calls of stubs

  /** Starts the instance without an agent. False if it was started before. */
  async begin(workflowName: string, params: unknown): Promise<boolean> {
    if (this.#table.run() !== undefined) return false;
    const startedMs = this.#runtime.time.nowMs();
    this.#table.begin({ workflowName, agent: undefined, params, startedMs });
    this.#push();
    return true;
  }

  async takeEvent(type: string, payload: unknown): Promise<void> {
    await this.#known();
    this.#takeEvent(type, payload, this.#runtime.time.nowMs());
  }

  async status(): Promise<InstanceStatus> {
    const run = this.#table.run();
    if (run === undefined) return { status: "unknown" };
    const { error, output } = run;
    const rollback = ENDED.has(run.status) ? new Undos(this.#table.steps()).outcome() : undefined;
    return {
      status: this.#statusOf(run),
      ...defined({ error, output, rollback }),
    };
  }

  /** Resolves to the new status. Rejects if the instance's status does not allow it. */
  async control(
    action: ControlAction,
    { rollback = false }: WorkflowTerminateOptions = {},
  ): Promise<InstanceStatus> {
    const run = await this.#known();
    if (action === "restart") {
      this.#abandon();
      this.#table.restart(this.#runtime.time.nowMs());
      this.#events.end();
      this.#push();
      return this.status();
    }
    if (ENDED.has(run.status))
      throw new Error(
        `Workflow ${this.name} can't ${action === "terminate" ? "be terminated" : action}: it is ${run.status}`,
      );
    if (action === "terminate" && rollback) this.#undoAll();
    else if (action === "terminate") {
      this.#abandon();
      this.#events.end();
      this.#table.setStatus("terminated");
    } else {
      this.#table.setPaused(action === "pause");
      if (action === "resume") this.#push();
    }
    return this.status();
  }

  /** Undoes the steps, as after a failure. If that is in progress, it continues. */
  #undoAll(): void {
    const isBegun = new Undos(this.#table.steps()).failure !== undefined;
    if (!isBegun) {
      this.#abandon();
      this.#table.put(Undos.terminated());
    }
    this.#table.setPaused(false);
    this.#push();
  }

  // Rules 1 and 2

  /** `key`: of the step whose time has come. */
  async wake(key: string): Promise<void> {
    this.#heard({ key });
  }

  async drive(): Promise<void> {
    const run = this.#table.run();
    if (run === undefined || ENDED.has(run.status)) return;
    this.#driving = true;
    try {
      const execution = (this.#execution ??= this.#execute(run));
      if (!run.paused) this.#runtime.inBackground(() => execution.waits.unpark());
      await execution.quiet();
    } finally {
      this.#driving = false;
    }
  }

  #push(): void {
    this.#runtime.queue.push("drive", undefined, { id: DRIVE, retry: WITHOUT_END });
  }

  /** Replays `run()` from its start. Its result is recorded before the drive settles. */
  #execute(run: RunRecord): Execution {
    const runtime = this.#runtime;
    const table = this.#table;
    const execution: Execution = new Execution({
      runtime,
      table,
      keys: `${this.workflowClass.name}/${this.name}/${run.generation}`,
      isPaused: () => table.run()?.paused === true,
      ensureDriven: () => {
        if (!this.#driving) this.#push();
      },
      begun: () => runtime.queue.begun(DRIVE),
      wakes: this.#wakes,
      events: this.#events,
      onCodeChanged: (error) => {
        if (execution.isAbandoned) return;
        void this.#endChanged(run, execution, error);
        execution.abandon();
      },
    });
    const steps = new Steps(execution, {
      nowMs: runtime.time.nowMs,
      report: (record, report) => this.#out.report(run, record, report),
      asked: async (name) => {
        await runtime.flush();
        return runtime.apis.approvals.asked(name);
      },
    });
    runtime.inBackground(() => {
      if (run.status === "queued") table.setStatus("running");
      this.#run(run, execution, steps).catch((error: unknown) => {
        if (error instanceof AgentDiscarded || error instanceof AgentDestroyed) return;
        runtime.abort(`a workflow's end can't be recorded: ${messageOf(error)}`);
      });
    });
    return execution;
  }

  async #run(run: RunRecord, execution: Execution, steps: Steps): Promise<void> {
    let output: string | undefined;
    let thrown: { readonly error: unknown } | undefined;
    try {
      checkDeaths(this.#table.steps(), this.#runtime.queue.begun(DRIVE));
      const workflow = this.#construct(run, execution, steps);
      const event = {
        payload: run.params as never,
        timestamp: new Date(run.startedMs),
        instanceId: this.name,
        workflowName: run.workflowName,
      };
      const value = await Promise.race([workflow.run(event, steps), execution.givenUp]);
      output = jsonText(value, RESULT);
      if (output !== undefined) checkSize(output, RESULT);
      if (!execution.isAbandoned) execution.checkEnd();
    } catch (caught) {
      const error = readable(caught);
      if (error instanceof AgentDiscarded || error instanceof AgentDestroyed) return;
      thrown = { error };
    }
    if (execution.isAbandoned) return;
    if (thrown === undefined && execution.undos.failure === undefined) {
      await this.#end(run, execution, output === undefined ? {} : { output });
      return;
    }
    const error = await execution.undo(thrown?.error);
    const how = execution.undos.isTerminated ? "was terminated" : "ended with an error";
    this.#runtime.log.warn(`a workflow ${how}`, {
      error: error.message,
      ...(thrown !== undefined && { stack: stackOf(thrown.error) }),
    });
    await this.#end(run, execution, { error });
  }

  /** Records the end, and reports an unreported error to the agent; then the drive may end. */
  async #end(
    run: RunRecord,
    execution: Execution,
    end: { readonly output?: string; readonly error?: StoredError },
  ): Promise<void> {
    const { isTerminated } = execution.undos;
    const error = isTerminated ? undefined : end.error;
    const status = isTerminated ? "terminated" : error === undefined ? "complete" : "errored";
    const cause = { kind: "workflow", type: status } as const;
    await this.#runtime.asTurn(cause, async () => {
      this.#table.setStatus(status, isTerminated ? {} : end);
      this.#wakes.cancel();
      this.#events.end();
      if (error !== undefined && !this.#reportedError())
        this.#out.callback(run, "uncaught", "error", error.message);
      await this.#runtime.flush();
    });
    execution.finish();
  }

  /**
   * Ends a run whose code has changed. If the instance leaves memory meanwhile, nothing is
   * recorded, and the next replay finds the same change.
   */
  async #endChanged(run: RunRecord, execution: Execution, error: Error): Promise<void> {
    try {
      await this.#end(run, execution, { error: describeThrown(error) });
    } catch (failed) {
      this.#runtime.log.warn("a workflow's end was not recorded", { error: String(failed) });
    }
  }

  #construct(run: RunRecord, execution: Execution, steps: Steps): WorkflowEntrypoint<never, never> {
    const agent = (): AgentStub<Agent> => this.#agentOf(run);
    const parts = { name: this.name, run, execution, steps, runtime: this.#runtime, agent };
    return new this.workflowClass(workflowContext(parts) as never, this.env as never);
  }

  get #title(): string {
    return `Workflow ${this.workflowClass.name} "${this.name}"`;
  }

  #agentOf(run: RunRecord) {
    if (run.agent === undefined)
      throw new Error(`this.agent: no agent started ${this.#title}: use runWorkflow`);
    const [className, name] = run.agent;
    const namespace: unknown = this.env[className];
    if (!(namespace instanceof AgentNamespace))
      throw new Error(`this.agent: the module no longer exports ${className}: export it again`);
    return makeStub<Agent>(AgentNamespace.callsOf(namespace), agentId(className, name));
  }

  #reportedError(): boolean {
    return this.#table
      .steps()
      .some(({ key, kind }) => kind === "report" && key === `1:${REPORT_ERROR}`);
  }

  #statusOf(run: RunRecord): WorkflowStatus {
    return this.#table.statusOf(run, this.#driving && this.#execution?.isRunning === true);
  }

  #abandon(): void {
    this.#execution?.abandon();
    this.#execution = undefined;
    this.#wakes.cancel();
  }

  /** The run. If the instance's start has not arrived yet, waits for it. */
  async #known(): Promise<RunRecord> {
    const run = this.#table.run();
    if (run !== undefined) return run;
    await new Promise<void>((resolve) => {
      const cancel = this.#runtime.time.after(START_WAIT_MS, resolve);
      this.#begun.push(() => {
        cancel();
        resolve();
      });
    });
    const begun = this.#table.run();
    if (begun === undefined) throw new Error(`${this.#title} was never started, or was deleted`);
    return begun;
  }
}

/** The actor class of a workflow class, under its name. */
export function workflowActor(workflowClass: WorkflowClass): typeof WorkflowRun {
  const actor = class extends WorkflowRun {
    override readonly workflowClass = workflowClass;
  };
  Object.defineProperty(actor, "name", { value: workflowClass.name });
  return actor;
}

/** Whether this class is the actor of a workflow, which users don't address as an agent. */
export const isWorkflowActor = (value: unknown): boolean =>
  typeof value === "function" && value.prototype instanceof WorkflowRun;
