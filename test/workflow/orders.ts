/**
 * Workflow classes that tests run, and the agent that starts them. `world` records what steps did
 * outside.
 */
import { Agent } from "agents";
import {
  AgentWorkflow,
  NonRetryableError,
  type WorkflowEvent,
  type WorkflowStep,
} from "agents/workflows";

/** What the steps' functions did, in order; one test at a time looks at it. */
export const world = {
  calls: [] as string[],
  keys: [] as string[],
  /** How often the step of that name is to fail. */
  failures: new Map<string, number>(),
  /** Told of each act before it is done. */
  onAct: undefined as ((what: string) => void) | undefined,
  reset(): void {
    this.onAct = undefined;
    this.calls = [];
    this.keys = [];
    this.failures = new Map();
  },
  act(what: string): string {
    this.calls.push(what);
    this.onAct?.(what);
    const left = this.failures.get(what) ?? 0;
    if (left > 0) {
      this.failures.set(what, left - 1);
      throw new Error(`${what} failed`);
    }
    return `${what} done`;
  },
};

interface Heard {
  readonly hook: string;
  readonly value: unknown;
}

export class Shop extends Agent<
  Record<string, unknown>,
  { heard: Heard[]; [key: string]: unknown }
> {
  override initialState = { heard: [] };

  start(workflow: string, params: unknown, id?: string, metadata?: Record<string, unknown>) {
    return this.runWorkflow(workflow, params, {
      ...(id === undefined ? {} : { id }),
      ...(metadata === undefined ? {} : { metadata }),
    });
  }
  /** What starts with values that JSON can't carry are refused with, and what is tracked then. */
  async startOdd() {
    const circle: Record<string, unknown> = {};
    circle["self"] = circle;
    const starts: ReadonlyArray<readonly [unknown, Record<string, unknown>?]> = [
      [{ price: 1n }],
      [() => 1],
      [undefined, circle],
    ];
    const refusals = starts.map(async ([params, metadata]) =>
      this.runWorkflow("WaitWorkflow", params, metadata && { metadata }).catch(String),
    );
    return [await Promise.all(refusals), this.getWorkflows().total];
  }
  /** What calls with a misspelt option are refused with. */
  async misspelt(id: string) {
    const calls: ReadonlyArray<() => unknown> = [
      () => this.runWorkflow("WaitWorkflow", {}, { ids: "w1" } as never),
      () => this.approveWorkflow(id, undefined, { approve: "pay" } as never),
      () => this.rejectWorkflow(id, "no", { approve: "pay" } as never),
      () => this.getApprovals({ state: "waiting" } as never),
    ];
    return Promise.all(calls.map(async (call) => call()).map((each) => each.then(String, String)));
  }
  async startMany(workflow: string, count: number, from = 0) {
    for (let n = from; n < from + count; n++)
      await this.runWorkflow(workflow, { n }, { id: `w${n}` });
  }
  approve(id: string, metadata?: unknown) {
    return this.approveWorkflow(id, metadata);
  }
  reject(id: string, reason?: string) {
    return this.rejectWorkflow(id, reason);
  }
  send(workflow: string, id: string, type: string, payload?: unknown) {
    return this.sendWorkflowEvent(workflow, id, { type, payload });
  }
  look(workflow: string, id: string) {
    return this.getWorkflowStatus(workflow, id);
  }
  row(id: string) {
    const { status, error, completedAt, metadata } = this.getWorkflow(id) ?? {};
    return { status, error, metadata, completed: completedAt !== null };
  }
  async page(criteria: object) {
    const { workflows, total, nextCursor } = await this.getWorkflows(criteria);
    return { ids: workflows.map(({ workflowId }) => workflowId), total, nextCursor };
  }
  async control(action: "pause" | "resume" | "terminate" | "restart", id: string) {
    if (action === "pause") return this.pauseWorkflow(id);
    if (action === "resume") return this.resumeWorkflow(id);
    if (action === "terminate") return this.terminateWorkflow(id);
    return this.restartWorkflow(id);
  }
  drop(id: string) {
    return this.deleteWorkflow(id);
  }
  dropAll(criteria: object) {
    return this.deleteWorkflows(criteria);
  }
  migrate(before: string, after: string) {
    return this.migrateWorkflowBinding(before, after);
  }
  hello(name: string): string {
    return `hello ${name}, from ${this.name}`;
  }

  override onWorkflowProgress({ progress }: { readonly progress: unknown }): void {
    this.#hear("progress", progress);
  }
  override onWorkflowComplete({ result }: { readonly result?: unknown }): void {
    this.#hear("complete", result);
  }
  // The reference's positional form.
  override onWorkflowError(...args: never[]): void;
  override onWorkflowError(workflowName: string, workflowId: string, error: string): void;
  override onWorkflowError(workflowName: string, workflowId?: string, error?: string): void {
    this.#hear("error", `${workflowName} ${workflowId}: ${error}`);
  }
  override onWorkflowEvent({ event }: { readonly event: unknown }): void {
    this.#hear("event", event);
  }
  #hear(hook: string, value: unknown): void {
    this.setState({ ...this.state, heard: [...this.state.heard, { hook, value }] });
  }
}

/** A saga: three steps, and what takes back those that were done when one fails. */
export class OrderWorkflow extends AgentWorkflow<Shop, { readonly item: string }> {
  override async run(event: WorkflowEvent<{ readonly item: string }>, step: WorkflowStep) {
    const undo: Array<[string, () => string]> = [];
    const retries = { limit: 1, delay: "1 second", backoff: "constant" } as const;
    try {
      const reserved = await step.do("reserve", { retries }, () => world.act("reserve"));
      undo.push(["release", () => world.act("release")]);
      await this.reportProgress({ step: "reserve", percent: 0.3 });
      const paid = await step.do("charge", { retries }, () => world.act("charge"));
      undo.push(["refund", () => world.act("refund")]);
      const shipped = await step.do("ship", { retries }, () => world.act("ship"));
      await step.reportComplete({ item: event.payload.item, reserved, paid, shipped });
      return shipped;
    } catch (error) {
      for (const [name, f] of undo.toReversed()) await step.do(name, f);
      throw error;
    }
  }
}

export class ApprovalWorkflow extends AgentWorkflow<Shop> {
  override async run(_event: WorkflowEvent, step: WorkflowStep) {
    await step.do("prepare", () => world.act("prepare"));
    const metadata = await this.waitForApproval(step, { timeout: "30 days" });
    await step.do("carry out", () => world.act("carry out"));
    await step.reportComplete(metadata);
  }
}

export class SleepWorkflow extends AgentWorkflow<Shop> {
  override async run(_event: WorkflowEvent, step: WorkflowStep) {
    await step.do("before", () => world.act("before"));
    await step.sleep("a month", "30 days");
    await step.do("after", () => world.act("after"));
    return "slept";
  }
}

export class WaitWorkflow extends AgentWorkflow<Shop> {
  override async run(_event: WorkflowEvent, step: WorkflowStep) {
    const event = await step.waitForEvent<{ n: number }>("the parcel", {
      type: "parcel",
      timeout: "1 hour",
    });
    return event.payload;
  }
}

export class RetryWorkflow extends AgentWorkflow<Shop, { readonly final?: boolean }> {
  override async run(event: WorkflowEvent<{ readonly final?: boolean }>, step: WorkflowStep) {
    return step.do("fragile", ({ key, attempt }) => {
      world.keys.push(`${key} ${attempt}`);
      if (event.payload?.final === true) throw new NonRetryableError("pointless");
      return world.act("fragile");
    });
  }
}

export class ParallelWorkflow extends AgentWorkflow<Shop> {
  override async run(_event: WorkflowEvent, step: WorkflowStep) {
    const branch = async (name: string, ms: number) => {
      const first = await step.do("part", () => world.act(`${name}1`));
      await step.sleep("pause", ms);
      return [first, await step.do("part", () => world.act(`${name}2`))];
    };
    return Promise.all([branch("a", 3000), branch("b", 1000), branch("c", 2000)]);
  }
}

/** Its code is what the test says. */
export class AnyWorkflow extends AgentWorkflow<Shop> {
  static code: (workflow: AnyWorkflow, step: WorkflowStep) => Promise<unknown> = async () => 0;
  override async run(_event: WorkflowEvent, step: WorkflowStep) {
    return AnyWorkflow.code(this, step);
  }
}

export type Step = WorkflowStep;
