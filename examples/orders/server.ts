/**
 * An agent per customer, a workflow per order: it reserves, charges and ships, undoes its steps
 * when one fails, and asks a person before it ships an expensive order. It survives restarts at any
 * point. README.md says how to try it.
 */
import { Agent, routeAgentRequest } from "agents";
import {
  AgentWorkflow,
  NonRetryableError,
  type WorkflowCompleteCallback,
  type WorkflowErrorCallback,
  type WorkflowEvent,
  type WorkflowStep,
} from "agents/workflows";

interface Order {
  readonly item: string;
  readonly price: number;
}

/** More expensive orders need a person's approval. */
const APPROVAL_PRICE_MIN = 1_000;

export class Customer extends Agent<Record<string, unknown>, { news: string[] }> {
  override initialState = { news: [] as string[] };

  override async onRequest(request: Request): Promise<Response> {
    const query = new URL(request.url).searchParams;
    const [approved, rejected] = [query.get("approve"), query.get("reject")];
    const decided = approved ?? rejected;
    if (decided !== null && this.getWorkflow(decided) === undefined)
      return new Response("There is no such order", { status: 404 });
    if (approved !== null) await this.approveWorkflow(approved, { by: "the shop" });
    else if (rejected !== null) await this.rejectWorkflow(rejected, "too dear");
    else if (request.method === "POST") {
      const order = (await request.json().catch(() => undefined)) as Partial<Order> | undefined;
      if (typeof order?.item !== "string" || typeof order.price !== "number")
        return new Response("Not an order", { status: 400 });
      return Response.json({ id: await this.runWorkflow("ORDER_WORKFLOW", order) });
    }
    const { workflows } = await this.getWorkflows({ limit: 20 });
    // The row of an order changes when its workflow reports something: the instance knows more.
    const orders = await Promise.all(
      workflows.map(async ({ workflowId, error }) => {
        const { status } = await this.getWorkflowStatus("ORDER_WORKFLOW", workflowId);
        return { workflowId, status, error };
      }),
    );
    return Response.json({ news: this.state.news, orders });
  }

  override onWorkflowComplete({ result }: WorkflowCompleteCallback<{ item: string }>): void {
    this.setState({ news: [...this.state.news, `${result?.item} is on its way`] });
  }
  override onWorkflowError({ error }: WorkflowErrorCallback): void {
    this.setState({ news: [...this.state.news, `an order came to nothing: ${error}`] });
  }
}

export class OrderWorkflow extends AgentWorkflow<Customer, Order> {
  override async run(event: WorkflowEvent<Order>, step: WorkflowStep): Promise<void> {
    const { item, price } = event.payload;
    const takeBack: Array<() => Promise<unknown>> = [];
    try {
      // `key` is the same in each attempt: a shop that receives it twice reserves once.
      await step.do("reserve", ({ key }) => warehouse.reserve(item, key));
      takeBack.push(() => step.do("release", ({ key }) => warehouse.release(item, key)));
      await step.do("charge", { timeout: "30 seconds" }, ({ key }) => bank.charge(price, key));
      takeBack.push(() => step.do("refund", ({ key }) => bank.refund(price, key)));
      if (price >= APPROVAL_PRICE_MIN) await this.waitForApproval(step, { timeout: "7 days" });
      await step.do("ship", ({ key }) => warehouse.ship(item, key));
    } catch (error) {
      for (const undo of takeBack.toReversed()) await undo();
      throw error;
    }
    await step.reportComplete({ item });
  }
}

/** Real shops call their services here; each line is one call. */
export const ledger: string[] = [];
const note = (what: string): void => void ledger.push(what);

const warehouse = {
  reserve(item: string, key: string): void {
    if (item === "unicorn") throw new NonRetryableError("there are no unicorns");
    note(`reserved ${item} (${key})`);
  },
  release: (item: string, _key: string) => note(`released ${item}`),
  ship(item: string, _key: string): void {
    if (item === "anvil") throw new NonRetryableError("nobody carries anvils");
    note(`shipped ${item}`);
  },
};
const bank = {
  charge: (price: number, _key: string) => note(`charged ${price}`),
  refund: (price: number, _key: string) => note(`refunded ${price}`),
};

export default {
  fetch: async (request: Request, env: Record<string, unknown>): Promise<Response> =>
    (await routeAgentRequest(request, env)) ?? new Response("Not found", { status: 404 }),
};
