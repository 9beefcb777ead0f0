/**
 * The signals from an instance to the agent that started it: reports, errors, changes of state.
 * Each is sent with the current commit, under a key that makes it apply once (`SignalLane`).
 */
import { agentId } from "../../schemas/Address.ts";
import type { WorkflowSignal } from "../../schemas/WorkflowSignal.ts";
import type { AgentWork } from "../turn/AgentWork.ts";
import type { RunRecord, StepRecord } from "./RunTable.ts";
import type { SignalLane } from "./SignalLane.ts";
import type { Report } from "./Steps.ts";

interface SignalsRuntime extends Pick<AgentWork, "id" | "time"> {
  readonly signals: Pick<SignalLane, "send">;
}

type Told = Pick<RunRecord, "agent" | "workflowName" | "generation">;

export class RunSignals {
  readonly #runtime: SignalsRuntime;
  readonly #instance: () => string;

  /** `instance`: its workflow's class and its id, for the keys. */
  constructor(runtime: SignalsRuntime, instance: () => string) {
    this.#runtime = runtime;
    this.#instance = instance;
  }

  report(run: Told, { key }: StepRecord, report: Report): void {
    if (report.kind !== "state") return this.callback(run, key, report.kind, report.value);
    const { change, value } = report;
    this.#send(run, key, { kind: "state", change, ...(value === undefined ? {} : { value }) });
  }

  callback(run: Told, key: string, type: "complete" | "error" | "event", value: unknown): void {
    this.#send(run, key, {
      kind: "callback",
      type,
      workflowName: run.workflowName,
      workflowId: this.#runtime.id.name,
      time: this.#runtime.time.nowMs(),
      ...(value === undefined ? {} : { value }),
    });
  }

  /** Does nothing if no agent started it. */
  #send({ agent, generation }: Told, key: string, signal: WorkflowSignal): void {
    if (agent === undefined) return;
    const once = `workflow:${this.#instance()}/${generation}:${key}`;
    this.#runtime.signals.send(agentId(...agent), once, signal);
  }
}
