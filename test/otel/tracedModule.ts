/** Agents whose turn does all that a trace shows. `agents dev` in `traces.test.ts` loads it. */
import { Agent, getAgentByName } from "agents";
import { body, unsigned, webhook } from "agents/webhooks";
import { tracing } from "cloudflare:workers";

interface Env {
  readonly Counter: never;
  readonly CALLED: string;
}

export class Traced extends Agent<Env, { readonly done: number }> {
  static override options = { retry: { maxAttempts: 1 } };
  override initialState = { done: 0 };
  override async onRequest(request: Request) {
    const { fail } = (await request.json()) as { fail?: boolean };
    if (fail) throw new Error("broken as ordered");
    this.sql`CREATE TABLE IF NOT EXISTS marks (text TEXT)`;
    this.sql`INSERT INTO marks VALUES (${"secret value"})`;
    this.setState({ done: this.state.done + 1 });
    await this.schedule(1, "remind");
    await this.queue("work", {});
    await fetch(`${this.env.CALLED}/called?token=secret`);
    const counter = (await getAgentByName(this.env.Counter, "one")) as unknown as Counter;
    await tracing.enterSpan("tally", async (span) => {
      span.setAttribute("counters", 1);
      await counter.count();
    });
    return new Response("OK");
  }
  remind() {}
  work() {}
}

export class Counter extends Agent<Env, { readonly count: number }> {
  override initialState = { count: 0 };
  count(): number {
    this.setState({ count: this.state.count + 1 });
    return this.state.count;
  }
}
export default {
  webhooks: [
    webhook("/hook", { agent: Traced, verify: unsigned(), entity: body("name", { trust: true }) }),
  ],
};
