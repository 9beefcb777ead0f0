/** Who reaches the sessions of a server whose module also routes to all of its agents. */
import { beforeAll, describe, expect, it } from "vitest";
import { routeAgentRequest } from "agents";
import { pollUntil } from "../kit/poll.ts";
import { TestSocket, useSystems, type System } from "../system/kit.ts";
import module, { CounterMcp } from "./counterModule.ts";
import { connectClient, INITIALIZE, post } from "./kit.ts";

const PAGE = "https://app.example.com";
const systems = useSystems();
let system: System;
/** The path of a session's agent by the default routing. */
const direct = (session: string) => `${system.url}/agents/counter-mcp/${session}`;
beforeAll(async () => {
  system = await systems.start({
    agents: { CounterMcp },
    fetch: async (request, env, context) =>
      (await routeAgentRequest(request, env)) ?? module.fetch(request, env as object, context),
  });
});

describe("a session", () => {
  it("is not begun by a request past its route", async () => {
    const named = `streamable-http:${crypto.randomUUID()}`;
    expect((await post(direct(named), INITIALIZE)).status).toBe(404);
    expect((await fetch(direct("sse:x"))).status).toBe(404);
  });

  it("answers no request past its route, whatever headers that has", async () => {
    const { call, client, transport } = await connectClient(`${system.url}/mcp`);
    const id = transport.sessionId!;
    const request = { method: "tools/call", params: { name: "add", arguments: { amount: 5 } } };
    const past = await fetch(direct(`streamable-http:${id}`), {
      method: "POST",
      headers: {
        accept: "application/json, text/event-stream",
        "content-type": "application/json",
        "mcp-session-id": id,
        "x-agents-mcp-session": "1",
      },
      body: JSON.stringify({ jsonrpc: "2.0", id: 7, ...request }),
    });
    expect(past.status).toBe(404);
    expect(await call("add", { amount: 1 })).toBe("1");
    await client.close();
  });

  it.each([
    ["a page of another site", { origin: "https://evil.example" }, 403],
    ["a page that hides its origin", { origin: "null" }, 403],
    ["an image of another site", { "sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors" }, 403],
    ["a page of this machine", { origin: "http://localhost:5173" }, 200],
    ["no page", {}, 200],
  ])("of a server on this machine is begun by its own pages alone: %s", async (_, headers, status) => {
    const answer = await post(`${system.url}/mcp`, INITIALIZE, undefined, headers);
    expect(answer.status).toBe(status);
    if (status === 403) expect(await answer.text()).toContain("allowedOriginHostnames");
  }); // prettier-ignore

  it.each([
    ["every page, under a public name", "https://mcp.example.com/mcp", {}, true],
    ["the page that corsOptions name", "http://localhost/mcp", { corsOptions: { origin: PAGE } }, true],
    ["listed pages", "http://localhost/mcp", { allowedOriginHostnames: ["app.example.com"] }, true],
    ["no others", "https://mcp.example.com/mcp", { allowedOriginHostnames: ["x.example"] }, false],
    ["every page", "http://[::1]:8787/mcp", { allowedOriginHostnames: "*" as const }, true],
  ])("is open to %s", async (_, url, options, passes) => {
    const request = new Request(url, { method: "POST", headers: { origin: PAGE }, body: "{" });
    // There is no agent to pass it to.
    const asked = CounterMcp.serve("/mcp", options).fetch(request, {});
    const status = await asked.then(({ status: refused }) => refused, () => "passed");
    expect(status).toBe(passes ? "passed" : 403);
  }); // prettier-ignore

  it("has sockets of those who know it, as any agent", async () => {
    const { client, transport } = await connectClient(`${system.url}/mcp`);
    const known = await TestSocket.open(direct(`streamable-http:${transport.sessionId}`));
    const stranger = await TestSocket.open(direct("streamable-http:stranger"));
    const closed = () => stranger.closed?.code === 1008 || { done: false as const, saw: stranger.closed }; // prettier-ignore
    await pollUntil("the stranger's socket is closed", closed);
    expect(known.closed).toBeUndefined();
    known.socket.close();
    await client.close();
  });
});
