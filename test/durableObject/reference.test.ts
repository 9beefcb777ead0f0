/**
 * The reference's own package as Durable Objects, unmodified: its `Agent` with state, SQL, calls of
 * its own client and schedules, and what is left when the object has left memory.
 */
import { afterAll, beforeAll, expect, test } from "vitest";
import { WebSocket } from "ws";
import { pollUntil } from "../kit/poll.ts";
import type { TestModule } from "../kit/system.ts";
import { useSystems, type System } from "../system/kit.ts";
import { readModule } from "../../services/module/readModule.ts";

// Its modules read `WebSocket` while they are loaded; Node has one from 22 on.
const added = !("WebSocket" in globalThis);
if (added) Object.assign(globalThis, { WebSocket });
const { Agent, callable, routeAgentRequest } = await import("reference-agents");
const { AgentClient } = await import("reference-agents/client");

class Tally extends Agent<object, { readonly count: number }> {
  override initialState = { count: 0 };

  override async onRequest(): Promise<Response> {
    this.sql`CREATE TABLE IF NOT EXISTS hits (n INTEGER)`;
    this.sql`INSERT INTO hits VALUES (1)`;
    this.add(1);
    const [hits] = this.sql<{ n: number }>`SELECT count(*) AS n FROM hits`;
    return Response.json({ ...this.state, name: this.name, hits: hits!.n });
  }
  add(by: number): number {
    this.setState({ count: this.state.count + by });
    return this.state.count;
  }
  async later(ms: number): Promise<void> {
    await this.schedule(ms / 1000, "add", 100);
  }
}
callable()(Tally.prototype.add, {} as never);
callable()(Tally.prototype.later as never, {} as never);
(Tally as unknown as { options: object }).options = { hibernateAfterSeconds: 0.3 };

const systems = useSystems();
let system: System;
beforeAll(async () => {
  const { agents } = readModule({ Tally }, "tally.ts");
  const fetch = async (request: Request, env: unknown): Promise<Response> =>
    (await routeAgentRequest(request, env)) ?? new Response("Not found", { status: 404 });
  const module = { agents: Object.fromEntries(agents), fetch } as unknown as TestModule;
  system = await systems.start(module);
});
afterAll(() => {
  if (added) Reflect.deleteProperty(globalThis, "WebSocket");
});

const connect = async (name: string) => {
  const { host } = new URL(system.url);
  const client = new AgentClient({ agent: "tally", name, host, WebSocket } as never);
  const seen: unknown[] = [];
  client.addEventListener("message", ({ data }) => seen.push(JSON.parse(String(data))));
  await client.ready;
  return { client, seen, call: (...[method, args]: [string, unknown[]]) => client.call(method as never, args as never) }; // prettier-ignore
};

test("its state and SQL outlive the object's time in memory", async () => {
  const hit = async () => (await fetch(`${system.url}/agents/tally/a`)).json();
  expect(await hit()).toEqual({ count: 1, name: "a", hits: 1 });
  const { host } = system.host;
  await pollUntil("it has left memory", () => host.agentsActive === 0);
  expect(await hit()).toEqual({ count: 2, name: "a", hits: 2 });
});

test("its client calls, sets the state and is told of it, through hibernation", async () => {
  const { client, seen, call } = await connect("b");
  expect(await call("add", [5])).toBe(5);
  client.setState({ count: 50 });
  expect(await call("add", [1])).toBe(51);
  await pollUntil("it has left memory", () => system.host.host.agentsActive === 0);
  expect(await call("add", [1])).toBe(52);
  expect(seen).toContainEqual({ type: "cf_agent_state", state: { count: 52 } });
  client.close();
});

test("its schedules run by the object's alarm", async () => {
  const { client, call } = await connect("c");
  await call("later", [20]);
  await pollUntil("it ran", async () => {
    const count = await call("add", [0]);
    return count === 100 || { done: false, saw: count };
  });
  client.close();
});
