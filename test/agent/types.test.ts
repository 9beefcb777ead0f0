/**
 * Types of stubs, drawn from the binding's class: what compiles, and (each `@ts-expect-error`) what
 * does not. `npm run check` is what runs them; here they are only kept from being forgotten.
 */
import { describe, expectTypeOf, it } from "vitest";
import {
  Agent,
  getAgentByName,
  type AgentNamespace,
  type AgentStub,
  type Module,
  type Schedule,
  type SendWebhookOptions,
} from "agents";
import { scheduleSchema } from "agents/schedule";

interface Env {
  readonly ShopAgent: AgentNamespace<ShopAgent>;
}
interface State {
  readonly sold: number;
}

class ShopAgent extends Agent<Env, State> {
  override initialState: State = { sold: 0 };
  label = "not a method";

  sell(count: number, note?: string): State {
    return { sold: count + (note?.length ?? 0) };
  }
  async list(): Promise<string[]> {
    return [];
  }
  typed(): void {
    expectTypeOf(this.state).toEqualTypeOf<State>();
    expectTypeOf(this.schedule("list", { cron: "* * * * *" })).toEqualTypeOf<Promise<string>>();
    expectTypeOf(this.schedule<number>(5, "list", 7)).toEqualTypeOf<Promise<Schedule<number>>>();
    expectTypeOf(this.queue("list")).toEqualTypeOf<Promise<string>>();
    expectTypeOf(this.sendWebhook("https://a.test", {})).toEqualTypeOf<Promise<string>>();
    expectTypeOf(this.keepAlive()).toEqualTypeOf<Promise<() => void>>();
    expectTypeOf(this.keepAliveWhile(async () => 1)).toEqualTypeOf<Promise<number>>();
    const natural = scheduleSchema.parse({});
    expectTypeOf(this.scheduleFrom(natural, "list")).toEqualTypeOf<Promise<string | null>>();
    // @ts-expect-error: not the state
    this.setState({ sold: "many" });
    // @ts-expect-error: state is changed by setState only
    this.state = { sold: 1 };
    // @ts-expect-error: an option that there is not
    void this.sendWebhook("https://a.test", {}, { token: "x" });
    void this.schedule("list", { delayInSeconds: 5 });
    // @ts-expect-error: no such method
    void this.schedule("missing", { delayInSeconds: 5 });
    // @ts-expect-error: in the reference's shape, too
    void this.schedule(5, "missing");
    // @ts-expect-error: nor here
    void this.scheduleEvery(5, "missing");
    // @ts-expect-error: nor for the queue
    void this.queue("missing");
    // @ts-expect-error: a delay is a number
    void this.schedule("list", { delayInSeconds: "5" });
  }
}

const module = {
  webhooks: [],
  fetch: (request, env, gateway) =>
    request.url === "/"
      ? new Response(env.ShopAgent.constructor.name)
      : gateway.routeAgentRequest(request).then((answer) => answer ?? new Response()),
} satisfies Module<Env>;
void module;
// @ts-expect-error: a misspelt key
void ({ webhook: [] } satisfies Module);

/** Never runs: only its types matter. */
async function compiled(env: Env): Promise<void> {
  const stub = await getAgentByName(env.ShopAgent, "a");
  expectTypeOf(stub).toEqualTypeOf<AgentStub<ShopAgent>>();
  expectTypeOf(stub.sell(1)).toEqualTypeOf<Promise<State>>();
  expectTypeOf(stub.sell(1, "x")).toEqualTypeOf<Promise<State>>();
  expectTypeOf(stub.list()).toEqualTypeOf<Promise<string[]>>();
  expectTypeOf(stub.fetch("http://agent/")).toEqualTypeOf<Promise<Response>>();
  expectTypeOf(stub.name).toEqualTypeOf<string>();
  expectTypeOf(stub.setState({ sold: 1 })).toEqualTypeOf<Promise<void>>();
  expectTypeOf(stub.destroy()).toEqualTypeOf<Promise<void>>();
  expectTypeOf(env.ShopAgent.getByName("a").list()).toEqualTypeOf<Promise<string[]>>();
  // @ts-expect-error: no such method
  void stub.missing();
  // @ts-expect-error: a field is not a method
  void stub.label;
  // @ts-expect-error: arguments have types
  void stub.sell("1");
  // @ts-expect-error: the base class's methods are the agent's own
  void stub.onStart();
  // @ts-expect-error: so is its SQL
  void stub.sql`SELECT 1`;
  // @ts-expect-error: and its schedules
  void stub.schedule(5, "list");
  const options: SendWebhookOptions = { secret: "s", standardWebhooks: true };
  void options;
}

describe("the types of agents and stubs", () => {
  it("have the class's methods, arguments and results, and nothing else", () => {
    expectTypeOf(compiled).toBeFunction();
  });
});
