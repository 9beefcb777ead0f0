/**
 * The workflow of a simulation: two steps with a pause and an event (or an approval) between them,
 * and a message to the ledger that started it. Its output shows whether each step had exactly one
 * result, and their order. A workflow that will be rejected buys something first, so that this is
 * undone.
 */
import { AgentWorkflow } from "../../core/workflow/AgentWorkflow.ts";
import type { WorkflowClass } from "../../core/workflow/WorkflowEntrypoint.ts";
import type { StepContext, WorkflowEvent, WorkflowStep } from "../../core/workflow/WorkflowStep.ts";
import { WorkflowRun } from "../../core/runtime/WorkflowRun.ts";
import type { InstanceStatus } from "../../core/workflow/WorkflowCalls.ts";
import type { ControlAction } from "../../core/workflow/WorkflowCalls.ts";
import { act } from "./rig/act.ts";
import { undoOf } from "./checkers/undone.ts";
import type { Ledger, SubjectEnv } from "./subjects.ts";

export interface ErrandParams {
  readonly id: string;
  /** Attempts of the first step that fail. */
  readonly fails: number;
  /** Between the steps. */
  readonly pauseMs: number;
  /** The second step's first attempt kills its host, before any restart. */
  readonly kills: boolean;
  /** It waits for an approval instead of its own event. */
  readonly approved: boolean;
  /** It buys before it waits. The approval is refused, so it fails. */
  readonly buys: boolean;
}

/** Steps that an errand which fails has done, and has to undo. */
export const ERRAND_BUYS = 2;
/** What those are called by in the world: the work of one generation. */
export const purchaseOf = (id: string, generation: number): string => `${id}/${generation}`;

export const FIRST = "first";
export const SECOND = "second";
/** Type of the event that lets it go on. */
export const GO = "go";

/** More than `fails`; short, for a run is. */
const RETRIES = { limit: 4, delay: 50, backoff: "constant" } as const;

/** The number in a step's key: 1, and one more with each restart. */
export const generationOf = (key: string): number => Number(/\/(\d+):/.exec(key)?.[1]);

export const errandResult = (id: string): string => `${id} ${FIRST} ${GO} ${SECOND}`;

export class Errand extends AgentWorkflow<Ledger, ErrandParams, unknown, SubjectEnv> {
  override async run(event: WorkflowEvent<ErrandParams>, step: WorkflowStep): Promise<string> {
    const { id, fails, pauseMs, kills, approved, buys } = event.payload;
    const first = await step.do(FIRST, { retries: RETRIES }, async (ctx) => {
      this.#ran(FIRST, ctx);
      if (ctx.attempt <= fails) throw new Error("as ordered");
      await this.env.sim.sleep(pauseMs % STEP_MS_MAX);
      return `${id} ${FIRST}`;
    });
    if (buys) await this.#buy(step, pauseMs);
    await step.sleep("pause", pauseMs);
    const word = approved ? await this.waitForApproval(step) : await this.#event(step);
    const result = await step.do(SECOND, { retries: RETRIES }, async (ctx) => {
      this.#ran(SECOND, ctx);
      const isFirstTime = ctx.attempt === 1 && generationOf(ctx.key) === 1;
      if (kills && isFirstTime) await this.env.sim.kill();
      await this.env.sim.sleep(pauseMs % STEP_MS_MAX);
      return `${first} ${word} ${SECOND}`;
    });
    await step.reportComplete(result);
    return result;
  }

  async #event(step: WorkflowStep): Promise<string> {
    return (await step.waitForEvent<string>("wait", { type: GO })).payload;
  }

  async #buy(step: WorkflowStep, ms: number): Promise<void> {
    const { sim } = this.env;
    const of = ({ key }: StepContext): string => purchaseOf(this.workflowId, generationOf(key));
    for (let part = 1; part <= ERRAND_BUYS; part++) {
      const kills = part === 1 && ms % KILLS_UNDOING_ONE_OF === 0;
      const buy = (ctx: StepContext) => act(sim, of(ctx), { part, ms, kills: false });
      await step.do("buy", { retries: RETRIES }, buy, {
        undo: (_, ctx) => act(sim, undoOf(of(ctx)), { part, ms, kills }),
      });
    }
  }

  #ran(op: string, { key, attempt }: StepContext): void {
    this.env.sim.ran({ agent: this.workflowId, key, kind: "workflow", attempt, op });
  }
}

const KILLS_UNDOING_ONE_OF = 2;
/** Long enough that others' commits go between. */
const STEP_MS_MAX = 40;

/** Its instances leave memory within a run. */
export class ErrandActor extends WorkflowRun {
  static override options = { ...WorkflowRun.options, hibernateAfterSeconds: 1 };
  override readonly workflowClass = Errand as unknown as WorkflowClass;

  override control(action: ControlAction): Promise<InstanceStatus> {
    const { sim } = this.env as unknown as SubjectEnv;
    sim.ran({ agent: this.name, key: "", kind: "control", attempt: 1, op: action });
    return super.control(action);
  }
}
