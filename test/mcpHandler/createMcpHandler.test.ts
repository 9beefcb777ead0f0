/** MCP servers without sessions (`agents/mcp/server`), asked by the SDK's client over real HTTP. */
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { McpServer } from "@modelcontextprotocol/server";
import { createMcpHandler, getMcpAuthContext } from "agents/mcp/server";
import { createMcpHandler as createEither } from "agents/mcp";
import { getAgentByName, Agent, type AgentNamespace } from "agents";
import { beforeAll, describe, expect, it } from "vitest";
import { z } from "zod";
import { textOf } from "../mcpAgent/kit.ts";
import { useSystems, type System } from "../system/kit.ts";

class Notes extends Agent<object, { readonly notes: ReadonlyArray<string> }> {
  override initialState = { notes: [] };
  add(note: string): number {
    this.setState({ notes: [...this.state.notes, note] });
    return this.state.notes.length;
  }
}

interface Env {
  readonly Notes: AgentNamespace<Notes>;
}
let env: Env;

function makeServer(): McpServer {
  const server = new McpServer({ name: "notes", version: "1.0.0" });
  server.registerTool(
    "addNote",
    { description: "Keeps a note", inputSchema: z.object({ note: z.string() }) },
    async ({ note }) => {
      const user = String(getMcpAuthContext()?.props["user"] ?? "nobody");
      const notes = await getAgentByName(env.Notes, user);
      return { content: [{ type: "text", text: `${user} has ${await notes.add(note)}` }] };
    },
  );
  return server;
}

const handler = createMcpHandler(makeServer, {
  corsOptions: { origin: "https://app.example.com" },
});
const systems = useSystems();
let system: System;
beforeAll(async () => {
  system = await systems.start({
    agents: { Notes },
    fetch: (request, given, context) => {
      env = given as unknown as Env;
      const user = request.headers.get("x-user");
      return handler(request, given, user === null ? context : { ...context, props: { user } });
    },
  });
});

async function connect(user?: string) {
  const client = new Client({ name: "test", version: "1" });
  const requestInit = { headers: user === undefined ? {} : { "x-user": user } };
  await client.connect(
    new StreamableHTTPClientTransport(new URL(`${system.url}/mcp`), { requestInit }),
  );
  return client;
}

describe("createMcpHandler", () => {
  it("serves the SDK's client, and its tools keep lasting data in agents", async () => {
    const client = await connect("ada");
    const call = { name: "addNote", arguments: { note: "x" } };
    expect(textOf(await client.callTool(call))).toBe("ada has 1");
    expect(textOf(await client.callTool(call))).toBe("ada has 2");
    const other = await connect();
    expect(textOf(await other.callTool(call))).toBe("nobody has 1");
    await Promise.all([client.close(), other.close()]);
  });

  it("answers its route only, and only pages of its own origins", async () => {
    const ask = (path: string, origin?: string) =>
      fetch(system.url + path, {
        method: "POST",
        headers: { "content-type": "application/json", accept: "application/json, text/event-stream", ...(origin === undefined ? {} : { origin }) }, // prettier-ignore
        body: JSON.stringify({ jsonrpc: "2.0", id: 1, method: "ping" }),
      });
    expect((await ask("/elsewhere")).status).toBe(404);
    expect((await ask("/mcp", "https://evil.example")).status).toBe(403);
    const good = await ask("/mcp", "https://app.example.com");
    expect(good.status).not.toBe(403);
    expect(good.headers.get("access-control-allow-origin")).toBe("https://app.example.com");
  });

  it("refuses a message of nothing but lists before it is parsed", async () => {
    const answer = await fetch(`${system.url}/mcp`, {
      method: "POST",
      headers: { "content-type": "application/json", accept: "application/json, text/event-stream" }, // prettier-ignore
      body: `{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":${"[".repeat(300_000)}${"]".repeat(300_000)}}}`,
    });
    expect(answer.status).toBe(413);
    expect(await answer.text()).toMatch(/-32000.*lists and objects/);
  });

  it("refuses a server in place of a function, and the bus option", () => {
    expect(() => createMcpHandler(makeServer() as never)).toThrow(/takes a function/);
    expect(() => createMcpHandler(makeServer, { bus: {} } as never)).toThrow(/no option bus/);
  });

  it("is what agents/mcp uses for functions", async () => {
    const either = createEither(makeServer);
    const answer = await either(new Request("http://localhost/other"), {}, {});
    expect(answer.status).toBe(404);
    expect(either.notify).toBeDefined();
  });
});
