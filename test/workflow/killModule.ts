/**
 * The module that the processes of the kill test run: each step makes up a token, so that a result
 * that was recorded twice shows; the agent writes down what it hears, with no dedup of its own.
 */
import { randomUUID } from "node:crypto";
import { Agent } from "agents";
import {
  AgentWorkflow,
  type WorkflowCompleteCallback,
  type WorkflowEvent,
  type WorkflowEventCallback,
  type WorkflowStep,
} from "agents/workflows";

interface Tokens {
  readonly first: string;
  readonly second: string;
  readonly third: string;
}

export class Office extends Agent<unknown, { readonly complete: number }> {
  static override options = { retry: { maxAttempts: 20 } };
  override initialState = { complete: 0 };

  override onStart(): void {
    this
      .sql`CREATE TABLE IF NOT EXISTS heard (n INTEGER PRIMARY KEY, id TEXT, what TEXT, token TEXT)`;
  }

  override async onRequest(request: Request): Promise<Response> {
    const url = new URL(request.url);
    const count = Number(url.searchParams.get("start"));
    for (let n = 0; n < count; n++)
      if (this.getWorkflow(`${this.name}-${n}`) === undefined)
        await this.runWorkflow("DELIVERY_WORKFLOW", { n }, { id: `${this.name}-${n}` });
    const cursor = url.searchParams.get("cursor");
    const page = await this.getWorkflows({
      limit: 40,
      ...(cursor === null ? {} : { cursor }),
    });
    return Response.json({
      complete: this.state.complete,
      page,
      heard: this.sql`SELECT id, what, token FROM heard ORDER BY n`,
    });
  }

  override onWorkflowEvent({ workflowId, event }: WorkflowEventCallback): void {
    this.sql`INSERT INTO heard (id, what, token) VALUES (${workflowId}, 'first', ${String(event)})`;
  }

  override onWorkflowComplete({ workflowId, result }: WorkflowCompleteCallback): void {
    for (const [what, token] of Object.entries(result as Tokens))
      this
        .sql`INSERT INTO heard (id, what, token) VALUES (${workflowId}, ${`all ${what}`}, ${String(token)})`;
    this.setState({ complete: this.state.complete + 1 });
  }
}

export class DeliveryWorkflow extends AgentWorkflow<Office, { readonly n: number }> {
  override async run(event: WorkflowEvent<{ readonly n: number }>, step: WorkflowStep) {
    const retries = { limit: 3, delay: 500, backoff: "constant" } as const;
    const first = await step.do("first", () => randomUUID());
    await step.sendEvent(first);
    const second = await step.do("second", { retries }, ({ attempt }) => {
      if (event.payload.n % 10 === 0 && attempt === 1) throw new Error("once");
      return randomUUID();
    });
    await step.sleep("on the road", "2 seconds");
    const third = await step.do("third", () => randomUUID());
    await step.reportComplete({ first, second, third });
    return { first, second, third };
  }
}
