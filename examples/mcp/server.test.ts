/** The workbench with an MCP server that the test plays, in memory: nothing leaves the process. */
import { McpServer } from "@modelcontextprotocol/sdk/server/mcp.js";
import { WebStandardStreamableHTTPServerTransport } from "@modelcontextprotocol/sdk/server/webStandardStreamableHttp.js";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { testAgents, type TestAgents } from "agents/testing";
import * as server from "./server.ts";

const URL_OF_TOOLS = "https://tools.example/mcp";

/** A server with two tools, made anew for each request: it keeps no session. */
async function play(request: Request): Promise<Response> {
  const mcp = new McpServer({ name: "tools", version: "1" });
  mcp.registerTool("time", { description: "the hour" }, () => ({
    content: [{ type: "text", text: "noon" }],
  }));
  mcp.registerTool("fail", { description: "fails" }, () => {
    throw new Error("out of order");
  });
  const transport = new WebStandardStreamableHTTPServerTransport({ enableJsonResponse: true });
  await mcp.connect(transport);
  return transport.handleRequest(request);
}

let test: TestAgents;
beforeEach(async () => {
  test = await testAgents({ module: server, outgoing: play });
});
afterEach(() => test.close());

describe("the workbench", () => {
  it("connects to a server, runs its tools, and keeps every run", async () => {
    const page = await test.connect(server.WorkbenchAgent, "ada");
    const added = (await page.call("connectServer", ["Tools", URL_OF_TOOLS])) as { id: string };
    expect(added).toMatchObject({ state: "ready" });
    expect(await page.call("runTool", [added.id, "time", {}])).toMatchObject({
      output: "noon",
      failed: false,
    });
    expect(await page.call("runTool", [added.id, "fail", {}])).toMatchObject({
      output: "out of order",
      failed: true,
    });
    expect(await page.call("runTool", ["absent", "time", {}])).toMatchObject({ failed: true });
    expect(await page.call("runs")).toHaveLength(3);
  });

  it("has its servers and its runs again after its host died", async () => {
    const page = await test.connect(server.WorkbenchAgent, "ada");
    const { id } = (await page.call("connectServer", ["Tools", URL_OF_TOOLS])) as { id: string };
    await page.call("runTool", [id, "time", {}]);
    await test.crash();
    await test.revive();
    const again = await test.connect(server.WorkbenchAgent, "ada");
    expect(await again.call("runTool", [id, "time", {}])).toMatchObject({ id: 2, output: "noon" });
  });

  it("shows its page, and refuses servers at addresses of the inner network", async () => {
    expect((await test.fetch("/")).status).toBe(200);
    const page = await test.connect(server.WorkbenchAgent, "eve");
    await expect(page.call("connectServer", ["Inner", "http://10.0.0.1/mcp"])).rejects.toThrow("Blocked URL"); // prettier-ignore
  });
});
