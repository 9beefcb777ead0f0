/** `createLegacyMcpHandler` and `WorkerTransport`: a server of the SDK's version 1 in any agent. */
import { McpServer } from "@modelcontextprotocol/sdk/server/mcp.js";
import { Agent, getAgentByName, type AgentNamespace } from "agents";
import {
  createLegacyMcpHandler,
  createMcpHandler,
  DurableObjectEventStore,
  getMcpAuthContext,
  WorkerTransport,
  type TransportState,
} from "agents/mcp";
import { beforeAll, describe, expect, it } from "vitest";
import { z } from "zod";
import { pollUntil } from "../kit/poll.ts";
import { useSystems, type System } from "../system/kit.ts";
import { connectClient, INITIALIZE, post } from "./kit.ts";

const KEY = "session";

/** More than an MCP server: it has state, and an MCP server in a field. */
class Ledger extends Agent<object, { readonly sum: number }> {
  static override options = { hibernateAfterSeconds: 0.3 };
  override initialState = { sum: 0 };
  readonly server = new McpServer({ name: "ledger", version: "1.0.0" });
  readonly transport = new WorkerTransport({
    sessionIdGenerator: () => this.name,
    storage: {
      get: () => {
        if (failures-- > 0) throw new Error("the storage is away");
        return this.ctx.storage.kv.get<TransportState>(KEY);
      },
      set: (state) => this.ctx.storage.kv.put(KEY, state),
    },
    eventStore: new DurableObjectEventStore(this.ctx.storage),
  });
  readonly handler = createLegacyMcpHandler(this.server, { transport: this.transport });

  override onStart(): void {
    this.server.registerTool(
      "book",
      { inputSchema: { amount: z.number() } },
      async ({ amount }) => {
        this.setState({ sum: this.state.sum + amount });
        return { content: [{ type: "text", text: `${this.state.sum}` }] };
      },
    );
  }
  override onRequest(request: Request): Promise<Response> {
    return this.handler(request, this.env, {});
  }
}

/** How often the storage of a `Ledger` fails before it answers. */
let failures = 0;

const systems = useSystems();
let system: System;
beforeAll(async () => {
  system = await systems.start({
    agents: { Ledger },
    fetch: async (request, env) => {
      const session = request.headers.get("mcp-session-id") ?? crypto.randomUUID();
      const namespace = env["Ledger"] as AgentNamespace<Ledger>;
      return (await getAgentByName(namespace, session)).fetch(request);
    },
  });
});

describe("a WorkerTransport with storage", () => {
  it("keeps its session in an agent that the module names after it", async () => {
    const { call, client, transport } = await connectClient(`${system.url}/mcp`);
    expect(await call("book", { amount: 4 })).toBe("4");
    const sessionId = transport.sessionId!;
    await client.close();
    await pollUntil("the agent hibernates", () => system.host.host.agentsActive === 0);
    const list = { jsonrpc: "2.0", id: 2, method: "tools/list" };
    failures = 1;
    expect((await post(`${system.url}/mcp`, list, sessionId)).status).toBe(500);
    const answer = await post(`${system.url}/mcp`, list, sessionId);
    expect(await answer.text()).toContain("book");
    expect((await post(`${system.url}/mcp`, list, "another")).status).toBe(400);
  });
});

describe("createLegacyMcpHandler without a transport", () => {
  const handlerOf = () => {
    const server = new McpServer({ name: "plain", version: "1.0.0" });
    server.registerTool("whoami", {}, async () => ({
      content: [{ type: "text", text: JSON.stringify(getMcpAuthContext()?.props) }],
    }));
    return createMcpHandler(server, { enableJsonResponse: true });
  };
  const ask = (message: unknown) =>
    new Request("http://localhost/mcp", {
      method: "POST",
      headers: {
        accept: "application/json, text/event-stream",
        "content-type": "application/json",
      },
      body: JSON.stringify(message),
    });

  it("answers one request without a session, and its tools see the caller", async () => {
    const call = { jsonrpc: "2.0", id: 1, method: "tools/call", params: { name: "whoami" } };
    const answer = await handlerOf()(ask(call), {}, { props: { user: "ada" } });
    expect(await answer.text()).toContain(String.raw`{\"user\":\"ada\"}`);
  });

  it("reports at the second request that each needs a new server", async () => {
    const handler = handlerOf();
    await handler(ask(INITIALIZE), {}, {});
    await expect(handler(ask(INITIALIZE), {}, {})).rejects.toThrow(/for each request/);
  });
});
