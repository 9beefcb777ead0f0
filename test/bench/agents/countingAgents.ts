/**
 * The module that the webhook bench runs: each delivery changes the state, inserts one row and is
 * answered by the agent. A GET returns what it counted, in state and in SQL, so that the bench can
 * check. `?sql=` asks over all agents, and `?deliveryLog=off` is for `startOurs`.
 */
import { Agent, query, routeAgentRequest, type AgentNamespace } from "agents";
import { body, github, path, slug, webhook } from "agents/webhooks";

interface Counted {
  readonly count: number;
  readonly last: string | null;
}

export class CountingAgent extends Agent<unknown, Counted> {
  // The process that rests while another is measured must not use the cores to put agents to bed.
  static override options = { hibernateAfterSeconds: 3600 };
  override initialState: Counted = { count: 0, last: null };

  override onStart(): void {
    this.sql`CREATE TABLE IF NOT EXISTS deliveries (id TEXT PRIMARY KEY, event TEXT, number TEXT)`;
  }

  override async onRequest(request: Request): Promise<Response> {
    if (request.method === "GET") {
      const [row] = this.sql<{ rows: number }>`SELECT count(*) AS rows FROM deliveries`;
      return Response.json({ count: this.state.count, rows: row?.rows });
    }
    const event = (await request.json()) as { readonly number: string };
    const id = request.headers.get("x-github-delivery");
    const type = request.headers.get("x-github-event");
    this.sql`INSERT INTO deliveries (id, event, number) VALUES (${id}, ${type}, ${event.number})`;
    this.setState({ count: this.state.count + 1, last: id });
    return new Response("OK");
  }
}

export default {
  webhooks: [
    webhook("/webhooks/github", {
      agent: CountingAgent,
      verify: github({ secret: "GITHUB_WEBHOOK_SECRET" }),
      entity: body("repository.full_name", slug),
    }),
    webhook("/webhooks/hot/:agent", {
      agent: CountingAgent,
      verify: github({ secret: "GITHUB_WEBHOOK_SECRET" }),
      entity: path("agent", { trust: true }),
    }),
  ],
  async fetch(request: Request, env: { CountingAgent: AgentNamespace }): Promise<Response> {
    const { searchParams } = new URL(request.url);
    const log = searchParams.get("deliveryLog");
    if (log !== null) {
      Object.assign(globalThis, { dropsRecords: log === "off" });
      return new Response(log);
    }
    const sql = searchParams.get("sql");
    if (sql !== null) return Response.json(await query(env.CountingAgent, sql));
    return (await routeAgentRequest(request, env)) ?? new Response("Not found", { status: 404 });
  },
};
