/** Agents that ask people before they pay: a workflow, and a fiber. `office` has the answers. */
import { Agent, type ApprovalQuestion, type FiberRecoveryContext } from "agents";
import { AgentWorkflow, type WorkflowEvent, type WorkflowStep } from "agents/workflows";

export const ORIGIN = "http://localhost";

/** What happened outside of the agents. Used by one test at a time. */
export const office = {
  log: [] as string[],
  links: [] as string[],
  /** Called by `notify`, before the link is noted. */
  onNotify: undefined as (() => unknown) | undefined,
  /** Workflows begin with a day's sleep. */
  sleeps: false,
  reset(): void {
    this.log = [];
    this.links = [];
    this.onNotify = undefined;
    this.sleeps = false;
  },
};

const question = (prompt = "Refund 40 € to Ann?", timeout?: string): ApprovalQuestion => ({
  prompt,
  ...(timeout === undefined ? {} : { timeout }),
  notify: async (asked) => {
    await office.onNotify?.();
    office.links.push(await asked.link({ origin: ORIGIN, for: "ann@example.com" }));
  },
});

interface Order {
  readonly prompt?: string;
  readonly timeout?: string;
  readonly times?: number;
  /** Of the approval. Default `refund`. */
  readonly called?: string;
}

export class RefundWorkflow extends AgentWorkflow<Desk, Order> {
  override async run({ payload }: WorkflowEvent<Order>, step: WorkflowStep) {
    const { prompt, timeout, times = 1, called = "refund" } = payload;
    if (office.sleeps) await step.sleep("first", "1 day");
    for (let n = 0; n < times; n++) {
      try {
        const grant = await this.approval(called, question(prompt, timeout));
        await step.do("pay", () => void office.log.push(`paid, said ${grant.by}`));
      } catch (error) {
        const { name, message } = error as Error;
        await step.do("tell", () => void office.log.push(`${name}: ${message}`));
      }
    }
  }
}

/** As apps of the reference do. */
export class PlainWorkflow extends AgentWorkflow<Desk> {
  override async run(_event: WorkflowEvent, step: WorkflowStep) {
    const metadata = await this.waitForApproval(step, { timeout: "30 days" });
    await step.do("pay", () => void office.log.push(`paid, with ${JSON.stringify(metadata)}`));
  }
}

export class Desk extends Agent {
  order(workflow: string, order: Order = {}, id = "w1") {
    return this.runWorkflow(workflow, order, { id });
  }
  answer(id: string, yes: boolean, approval?: string, by?: string, more: object = {}) {
    const options = { ...(approval && { approval }), ...(by && { by }), ...more };
    return yes
      ? this.approveWorkflow(id, { metadata: 7 }, options)
      : this.rejectWorkflow(id, "too dear", options);
  }
  async control(id: string, action: "pause" | "resume" | "restart" | "terminate") {
    if (action === "pause") await this.pauseWorkflow(id);
    else if (action === "resume") await this.resumeWorkflow(id);
    else if (action === "restart") await this.restartWorkflow(id);
    else await this.terminateWorkflow(id);
  }
  status(id: string) {
    return this.getWorkflowStatus("RefundWorkflow", id);
  }

  async begin(order: Order = {}, fiberId = "f1") {
    await this.startFiber("refund", () => this.#refund(order), {
      fiberId,
      metadata: { ...order },
    });
  }
  async cancel(fiberId: string) {
    await this.cancelFiber(fiberId);
  }
  override async onFiberRecovered({ metadata }: FiberRecoveryContext) {
    office.log.push("recovered");
    await this.startFiber("refund", () => this.#refund(metadata as Order));
  }
  async #refund({ prompt, timeout, times = 1, called = "refund" }: Order): Promise<void> {
    for (let n = 0; n < times; n++) {
      try {
        const grant = await this.approval(called, question(prompt, timeout));
        office.log.push(`paid, said ${grant.by}`);
      } catch (error) {
        const { name, message } = error as Error;
        if (name === "AgentDiscarded") throw error; // its host is dead
        office.log.push(`${name}: ${message}`);
      }
    }
  }
  override async onRequest() {
    return Response.json(await this.approval("now").catch(({ message }: Error) => message));
  }
  link(which: string, options: object) {
    return this.approvalLink(which, { origin: ORIGIN, for: "ann@example.com", ...options });
  }
}
