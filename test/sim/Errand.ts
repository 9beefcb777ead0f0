/**
 * The workflow of a simulation: two steps with a pause and an event between them, and its word to the ledger that
 * started it. What it ends with tells whether each step gave its one result, and in which order.
 */
import { AgentWorkflow, type WorkflowClass } from "../../core/workflow/AgentWorkflow.ts";
import type { StepContext, WorkflowEvent, WorkflowStep } from "../../core/workflow/WorkflowStep.ts";
import { WorkflowRun } from "../../core/workflow/WorkflowRun.ts";
import type { Ledger, SubjectEnv } from "./subjects.ts";

export interface ErrandParams {
  readonly id: string;
  /** Attempts of the first step that fail. */
  readonly fails: number;
  /** Between the steps. */
  readonly pauseMs: number;
  /** The second step's first attempt kills its host. */
  readonly kills: boolean;
}

export const FIRST = "first";
export const SECOND = "second";
/** Type of the event that lets it go on. */
export const GO = "go";

/** More than `fails`; short, for a run is. */
const RETRIES = { limit: 4, delay: 50, backoff: "constant" } as const;

export const errandResult = (id: string): string => `${id} ${FIRST} ${GO} ${SECOND}`;

export class Errand extends AgentWorkflow<Ledger, ErrandParams, unknown, SubjectEnv> {
  override async run(event: WorkflowEvent<ErrandParams>, step: WorkflowStep): Promise<string> {
    const { id, fails, pauseMs, kills } = event.payload;
    const first = await step.do(FIRST, { retries: RETRIES }, async (ctx) => {
      this.#ran(FIRST, ctx);
      if (ctx.attempt <= fails) throw new Error("as ordered");
      await this.env.sim.sleep(pauseMs % STEP_MS_MAX);
      return `${id} ${FIRST}`;
    });
    await step.sleep("pause", pauseMs);
    const { payload } = await step.waitForEvent<string>("wait", { type: GO });
    const result = await step.do(SECOND, { retries: RETRIES }, async (ctx) => {
      this.#ran(SECOND, ctx);
      if (kills && ctx.attempt === 1) await this.env.sim.kill();
      return `${first} ${payload} ${SECOND}`;
    });
    await step.reportComplete(result);
    return result;
  }

  #ran(op: string, { key, attempt }: StepContext): void {
    this.env.sim.ran({ agent: this.workflowId, key, kind: "workflow", attempt, op });
  }
}

/** Long enough that others' commits go between. */
const STEP_MS_MAX = 40;

/** Its instances leave memory within a run. */
export class ErrandActor extends WorkflowRun {
  static override options = { ...WorkflowRun.options, hibernateAfterSeconds: 1 };
  override readonly workflowClass = Errand as unknown as WorkflowClass;
}
