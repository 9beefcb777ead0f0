/** `McpAgent.serve` of the reference's own package: its route opens a socket to the object. */
import { afterAll, beforeAll, expect, test } from "vitest";
import { URLPattern } from "urlpattern-polyfill/urlpattern";
import { WebSocket } from "ws";
import { McpServer } from "@modelcontextprotocol/sdk/server/mcp.js";
import { z } from "zod";
import { readModule } from "../../services/module/readModule.ts";
import { connectClient, post } from "../mcpAgent/kit.ts";
import type { TestModule } from "../kit/system.ts";
import { useSystems, type System } from "../system/kit.ts";

// As the loader of modules does. Node has one from 22 on, and the other from 24 on.
const missing = Object.entries({ WebSocket, URLPattern }).filter(([name]) => !(name in globalThis));
Object.assign(globalThis, Object.fromEntries(missing));
const { McpAgent } = await import("reference-agents/mcp");

class Sums extends McpAgent<object, { readonly sum: number }> {
  server = new McpServer({ name: "sums", version: "1.0.0" });
  override initialState = { sum: 1 };

  override async init(): Promise<void> {
    this.server.registerTool("add", { inputSchema: { a: z.number() } }, async ({ a }) => {
      this.setState({ sum: this.state.sum + a });
      return { content: [{ type: "text", text: String(this.state.sum) }] };
    });
    this.server.registerTool("sum", {}, async () => ({
      content: [{ type: "text", text: String(this.state.sum) }],
    }));
  }
}

const systems = useSystems();
let system: System;
beforeAll(async () => {
  const { agents } = readModule({ Sums }, "sums.ts");
  const served = Sums.serve("/mcp", { binding: "Sums" });
  const fetch = (request: Request, env: unknown): Promise<Response> =>
    served.fetch(request, env as never, { props: undefined, waitUntil: () => undefined } as never);
  system = await systems.start({ agents: Object.fromEntries(agents), fetch } as unknown as TestModule); // prettier-ignore
});
afterAll(() => {
  for (const [name] of missing) Reflect.deleteProperty(globalThis, name);
});

test("a client calls tools that read and set the state of its session", async () => {
  const { call, client } = await connectClient(`${system.url}/mcp`);
  expect((await client.listTools()).tools.map(({ name }) => name)).toEqual(["add", "sum"]);
  expect(await call("sum")).toBe("1");
  expect(await call("add", { a: 4 })).toBe("5");
  expect(await call("sum")).toBe("5");
  const other = await connectClient(`${system.url}/mcp`);
  expect(await other.call("sum")).toBe("1");
  await other.client.close();
  await client.close();
});

test("a request without a session, or with an unknown one, is refused", async () => {
  const list = { jsonrpc: "2.0", id: 1, method: "tools/list" };
  expect((await post(`${system.url}/mcp`, list)).status).toBe(400);
  expect((await post(`${system.url}/mcp`, list, "unknown")).status).toBe(404);
});
