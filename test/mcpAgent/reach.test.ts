/** Who reaches the sessions of a server whose module also routes to all of its agents. */
import { beforeAll, describe, expect, it } from "vitest";
import { routeAgentRequest } from "agents";
import { pollUntil } from "../kit/poll.ts";
import { TestSocket, useSystems, type System } from "../system/kit.ts";
import module, { CounterMcp } from "./counterModule.ts";
import { connectClient, INITIALIZE, post } from "./kit.ts";

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
