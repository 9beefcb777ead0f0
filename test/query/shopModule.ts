/** What tests of queries run on: two classes, and questions in `fetch` and in an agent. */
import { Agent, getAgentByName, query, type AgentNamespace, type Module } from "agents";

interface Env {
  readonly Shop: AgentNamespace<Shop>;
}

export class Shop extends Agent<Env, { readonly sold: number }> {
  static override options = { retry: { maxAttempts: 1 }, hibernateAfterSeconds: 0.2 };
  override initialState = { sold: 0 };

  sell(count: number): number {
    this.sql`CREATE TABLE IF NOT EXISTS sales (count INTEGER)`;
    this.sql`INSERT INTO sales VALUES (${count})`;
    this.setState({ sold: this.state.sold + count });
    return this.state.sold;
  }

  async sellAndRank(count: number): Promise<unknown[]> {
    this.sell(count);
    return query(this.env.Shop, "SELECT name, state->>'sold' AS sold FROM Shop ORDER BY 2 DESC");
  }

  async plan(seconds: number): Promise<void> {
    await this.schedule(seconds, "restock", {});
  }

  replan(): void {
    this.sql`UPDATE svc_agents_schedules SET callback = 'clear', payload = '"all"'`;
    this
      .sql`INSERT INTO svc_agents_schedules (id, callback, type, cron) VALUES ('bad', 'clear', 'cron', 'no cron')`;
  }

  clear(): void {
    this.setState({ sold: 0 });
  }

  restock(): void {
    this.setState({ sold: 0 });
  }

  async failLater(message: string): Promise<void> {
    await this.queue("fail", message);
  }

  fail(message: string): never {
    throw new Error(message);
  }
}

/** A class without agents until the end of the tests. */
export class Latecomer extends Agent<unknown, { readonly here: boolean }> {
  come() {
    this.setState({ here: true });
  }
}

export class Customer extends Agent<unknown, { readonly spent: number }> {
  override initialState = { spent: 0 };

  pay(amount: number): void {
    this.setState({ spent: this.state.spent + amount });
  }
}

export default {
  async fetch(request, env) {
    const { pathname, searchParams } = new URL(request.url);
    const of = (name: string): string => searchParams.get(name) ?? "";
    if (pathname === "/sell") {
      const shop = await getAgentByName(env.Shop, of("shop"));
      return new Response(String(await shop.sell(Number(of("count")))));
    }
    const rich =
      "SELECT name, state->>'sold' AS sold FROM Shop WHERE state->>'sold' >= ? ORDER BY 2";
    try {
      return Response.json(await query(env.Shop, of("sql") || rich, of("sql") ? { seconds: 60 } : { values: [Number(of("least"))] })); // prettier-ignore
    } catch (error) {
      return new Response(String(error), { status: 400 });
    }
  },
} satisfies Module<Env>;
