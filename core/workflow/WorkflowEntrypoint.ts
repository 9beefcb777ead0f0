/**
 * The base class of workflows, as `cloudflare:workers` exports it: `run` is replayed from its start
 * after each pause, and its steps return their recorded results. `AgentWorkflow` adds access to the
 * agent that started it. `WorkflowRun` constructs and drives an instance.
 */
import type { WorkflowEvent, WorkflowStep } from "./WorkflowStep.ts";

/** Static mark, by which `readModule` recognises the classes of every copy of the package. */
export const WORKFLOW_MARK: unique symbol = Symbol.for("agents.AgentWorkflow") as never;

/** The constructor's argument, made by the runtime. */
export interface WorkflowEntrypointContext {
  /** Keeps the instance in memory until `promise` settles. A rejection is logged. */
  waitUntil(promise: Promise<unknown>): void;
  /** Does nothing: there is no origin to pass through to. */
  passThroughOnException(): void;
}

/** `Env` is the type of the bindings, `Params` that of the params of its instances. */
export abstract class WorkflowEntrypoint<Env = Record<string, unknown>, Params = unknown> {
  static readonly [WORKFLOW_MARK]: boolean = true;
  protected readonly ctx: WorkflowEntrypointContext;
  /** The bindings and variables of the installation. */
  protected readonly env: Env;

  constructor(ctx: WorkflowEntrypointContext, env: Env) {
    this.ctx = ctx;
    this.env = env;
  }

  /** See `AgentWorkflow.run`. */
  abstract run(event: WorkflowEvent<Params>, step: WorkflowStep): Promise<unknown>;
}

export type WorkflowClass = (new (ctx: never, env: never) => WorkflowEntrypoint<never, never>) & {
  readonly name: string;
};

/** A subclass of `WorkflowEntrypoint`, or of `AgentWorkflow`. */
export const isWorkflowClass = (value: unknown): value is WorkflowClass =>
  typeof value === "function" &&
  (value as { readonly [WORKFLOW_MARK]?: unknown })[WORKFLOW_MARK] === true &&
  !Object.hasOwn(value, WORKFLOW_MARK);
