/** A framework's middleware around `routeAgentRequest`: what `hono-agents` passes, and copies. */
import { expect, test } from "vitest";
import { Agent, callable, routeAgentRequest } from "agents";
import { testAgents } from "agents/testing";

class Box extends Agent<object, { readonly count: number }> {
  override initialState = { count: 0 };
  override onRequest(): Response {
    return Response.json(this.state);
  }
  @callable()
  add(by: number): number {
    this.setState({ count: this.state.count + by });
    return this.state.count;
  }
}

/** With Hono's `env(c)` in Node, and like its `c.res = …`, by which headers are added. */
const fetch = async (request: Request): Promise<Response> => {
  const answer = await routeAgentRequest(request, process.env);
  if (answer === null) return new Response("Not found", { status: 404 });
  const copy = new Response(answer.body, answer);
  copy.headers.set("x-by", "middleware");
  return copy;
};

test("reaches the module's agents, and may copy their responses and upgrades", async () => {
  await using t = await testAgents({ module: { Box, default: { fetch } } });
  const client = await t.connect(Box, "a");
  expect(await client.call("add", [2])).toBe(2);
  const answer = await t.fetch("/agents/box/a");
  expect([await answer.json(), answer.headers.get("x-by")]).toEqual([{ count: 2 }, "middleware"]);
});

class Front extends Agent {
  override onRequest(request: Request): Promise<Response> {
    return globalThis.fetch(new Request("https://upstream.example/login", request));
  }
}

test("a request that is passed on to a server follows no redirects: they are its caller's", async () => {
  const headers = { location: "/home", "set-cookie": "s=1" };
  const outgoing = ({ url }: Request) =>
    url.endsWith("/login") ? new Response(null, { status: 302, headers }) : new Response("home");
  await using t = await testAgents({ agents: [Front], outgoing });
  const answer = await t.fetch("/agents/front/a");
  expect([answer.status, answer.headers.get("set-cookie")]).toEqual([302, "s=1"]);
});
