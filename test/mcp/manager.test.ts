/** `this.mcp` as agent code uses it; who uses none of it pays nothing. */
import { readdirSync, readFileSync } from "node:fs";
import { generateText, stepCountIs } from "ai";
import { MockLanguageModelV3 } from "ai/test";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { Agent, callable, normalizeServerId } from "agents";
import { errorText } from "../../core/mcp/errorText.ts";
import { readRetry, type McpServerRow } from "../../core/mcp/McpServerTable.ts";
import type { LogShape } from "../../core/telemetry/Log.ts";
import { journalOf, TestSocket, useSystems, type System } from "../system/kit.ts";
import { rpc, startEverything, type Everything } from "./kit.ts";
import { ToolAgent } from "./toolModule.ts";

const USAGE = {
  inputTokens: { total: 1, noCache: 1, cacheRead: 0, cacheWrite: 0 },
  outputTokens: { total: 1, text: 1, reasoning: 0 },
};

/** Calls every part of the manager, and returns what it saw. */
class ManagerAgent extends Agent {
  asked: unknown[] = [];

  override onStart() {
    this.mcp.configureElicitationHandlers({
      form: async ({ params }, serverId) => {
        this.asked.push([serverId, params.message]);
        return { action: "accept", content: { name: "Ada" } };
      },
    });
  }

  @callable()
  async methods(url: string) {
    const { mcp } = this;
    const seen: unknown[] = [];
    let changes = 0;
    const events: string[] = [];
    const off = mcp.onServerStateChanged(() => changes++);
    mcp.onObservabilityEvent(({ type }) => events.push(type));
    const id = await mcp.registerServer("one", { url, name: "One", retry: { maxAttempts: 1 } });
    const state = () => mcp.getMcpServers().servers["one"]?.state;
    seen.push(["registered", id, state(), await mcp.discoverIfConnected(id)]);
    seen.push(["connected", await mcp.connectToServer(id), mcp.listTools().length]);
    seen.push(["discovered", await mcp.discoverIfConnected(id), mcp.listTools().length > 0]);
    await mcp.registerServer("two", { url, name: "Two" });
    await mcp.establishConnection("two");
    const count = (filter: Parameters<typeof mcp.listTools>[0]) =>
      new Set(mcp.listTools(filter).map(({ serverId }) => serverId)).size;
    seen.push(["filters", count({}), count({ serverId: "one" }), count({ serverName: ["Two"] }), count({ state: "failed" }), count({ serverId: "one", serverName: "Two" })]); // prettier-ignore
    await mcp.closeConnection("one");
    seen.push(["closed", state(), mcp.listServers().length, count({})]);
    // Asked for, it is connected to again.
    seen.push(["called", (await mcp.callTool({ serverId: "one", name: "echo", arguments: { message: "x" } })).content]); // prettier-ignore
    await mcp.closeAllConnections();
    await mcp.waitForConnections();
    const told = changes;
    off.dispose();
    await mcp.removeServer("one");
    seen.push(["removed", mcp.listServers().map(({ id: left }) => left), changes === told]);
    const unknown = await mcp.connectToServer("one").catch(String);
    const bad = await mcp.registerServer("a/b", { url, name: "x" }).catch(String);
    seen.push(["errors", unknown, bad]);
    seen.push(["events", [...new Set(events)]]);
    return seen;
  }

  @callable()
  async named(id: string, url: string) {
    await this.mcp.registerServer(id, { url, name: "Named" });
    await this.mcp.establishConnection(id);
    const { servers, tools } = this.mcp.getMcpServers();
    return [Object.keys(servers), tools[0]?.serverId];
  }

  @callable()
  async elicit(url: string) {
    const { id } = await this.addMcpServer("E", url, { id: "asker" });
    const tools = this.mcp.listTools().map(({ name }) => name);
    const result = await this.mcp.callTool({ serverId: id, name: "trigger-elicitation-request" });
    return { tools, asked: this.asked, result };
  }

  @callable()
  async generate(url: string) {
    await this.addMcpServer("AI", url, { id: "my-ai" });
    let steps = 0;
    const model = new MockLanguageModelV3({
      doGenerate: async () =>
        steps++ === 0
          ? {
              content: [{ type: "tool-call", toolCallId: "1", toolName: "tool_myai_echo", input: '{"message":"from a model"}' }], // prettier-ignore
              finishReason: { unified: "tool-calls", raw: undefined },
              usage: USAGE,
              warnings: [],
            }
          : {
              content: [{ type: "text", text: "done" }],
              finishReason: { unified: "stop", raw: undefined },
              usage: USAGE,
              warnings: [],
            },
    });
    const tools = this.mcp.getAITools();
    const { text, steps: all } = await generateText({ model, prompt: "echo", tools, stopWhen: stepCountIs(3) }); // prettier-ignore
    const offered = model.doGenerateCalls[0]?.tools?.find(({ name }) => name === "tool_myai_echo");
    return { text, results: all[0]?.toolResults.map(({ output }) => output), offered };
  }
}

const systems = useSystems();
let system: System & { readonly options: Parameters<typeof journalOf>[0] };
let everything: Everything;
beforeAll(async () => {
  [system, everything] = await Promise.all([
    systems.start({ agents: { ManagerAgent, ToolAgent } }),
    startEverything("streamableHttp"),
  ]);
});
afterAll(async () => {
  await everything?.stop();
});
const open = (name: string, agent = "manager-agent") =>
  TestSocket.open(`${system.url}/agents/${agent}/${name}`);

describe("the manager", () => {
  test("registers, connects, discovers, lists by filters, closes and removes", async () => {
    const seen = await rpc(await open("methods"), "methods", everything.url);
    expect(seen).toEqual([
      ["registered", "one", "not-connected", null],
      ["connected", { state: "connected" }, 0],
      ["discovered", { success: true, state: "ready" }, true],
      ["filters", 2, 1, 1, 0, 0],
      ["closed", "not-connected", 2, 1],
      ["called", [{ type: "text", text: "Echo: x" }]],
      ["removed", ["two"], true],
      ["errors", 'Error: No MCP server "one" is registered', expect.stringMatching(/^TypeError: .*without "\/"/)], // prettier-ignore
      ["events", ["mcp:client:preconnect", "mcp:client:connect", "mcp:client:discover", "mcp:client:close"]], // prettier-ignore
    ]);
  });

  test("lists a server under any id", async () => {
    const seen = await rpc(await open("named"), "named", "__proto__", everything.url);
    expect(seen).toEqual([["__proto__"], "__proto__"]);
  });

  test("refuses retry options that are out of range, and stores nothing", async () => {
    const socket = await open("retry", "tool-agent");
    for (const [retry, error] of [
      [{ baseDelayMs: 10_000 }, "retry.baseDelayMs must be <= retry.maxDelayMs"],
      [{ maxAttempts: 0 }, "retry.maxAttempts must be >= 1"],
    ] as const)
      await expect(rpc(socket, "add", "R", everything.url, { retry })).rejects.toThrow(error);
    expect(await rpc(socket, "rows")).toEqual([]);
  });

  test("uses the defaults in place of stored retry options that are out of range, and logs it", () => {
    const lines: unknown[] = [];
    const log = { warn: (...line: unknown[]) => lines.push(line) } as unknown as LogShape;
    const row = (retry: object) =>
      ({ id: "s", server_options: JSON.stringify({ retry }) }) as McpServerRow;
    expect(readRetry(row({ maxAttempts: 9 }), log)).toMatchObject({ maxAttempts: 9 });
    expect(lines).toEqual([]);
    expect(readRetry(row({ baseDelayMs: 10_000 }), log)).toEqual(readRetry(row({}), log));
    expect(JSON.stringify(lines)).toContain("retry.baseDelayMs must be");
  });

  test("answers a server's elicitations through the agent's handler", async () => {
    const { tools, asked, result } = await rpc<{ tools: string[]; asked: unknown[][]; result: unknown }>(await open("elicit"), "elicit", everything.url); // prettier-ignore
    // Servers offer such tools only to clients that said that they can be asked.
    expect(tools).toContain("trigger-elicitation-request");
    expect(asked[0]?.[0]).toBe("asker");
    expect(JSON.stringify(result)).toContain("Ada");
    const without = await open("no-handler", "tool-agent");
    await rpc(without, "add", "E", everything.url, { id: "asker" });
    const mcp = await rpc<ReturnType<ToolAgent["servers"]>>(without, "servers");
    expect(mcp.tools.map(({ name }) => name)).not.toContain("trigger-elicitation-request");
  });

  test("returns tools that generateText of the ai package can run", async () => {
    expect(await rpc(await open("generate"), "generate", everything.url)).toMatchObject({
      text: "done",
      results: [{ content: [{ type: "text", text: "Echo: from a model" }] }],
      offered: { type: "function", description: expect.any(String) as string, inputSchema: { properties: { message: { type: "string" } } } }, // prettier-ignore
    });
    const socket = await open("ai-errors", "tool-agent");
    await rpc(socket, "add", "E", everything.url, { id: "e" });
    const failing = rpc(socket, "ai", "tool_e_get-sum", { a: "no number" });
    await expect(failing).rejects.toThrow(/number/i);
  });
});

describe("an agent that uses no MCP", () => {
  test("has no table, no database, and no trace of it in its journal", async () => {
    const socket = await open("none", "tool-agent");
    expect(await rpc(socket, "servers")).toEqual({ servers: {}, tools: [], prompts: [], resources: [] }); // prettier-ignore
    expect(await journalOf(system.options, "ToolAgent", "none")).toEqual([]);
  });

  test("does not load the SDK: one file imports it, when a server is first connected", () => {
    const texts = readdirSync("services", { recursive: true, encoding: "utf8" })
      // The entries for servers are read by modules that have one.
      .filter((path) => path.endsWith(".ts") && !/^mcp(?:Agent|Handler)\//.test(path))
      .map((path) => [path, readFileSync(`services/${path}`, "utf8")] as const);
    const importing = (what: RegExp) => texts.filter(([, text]) => what.test(text)).map(([path]) => path).toSorted(); // prettier-ignore
    expect(importing(/from "@modelcontextprotocol\//)).toEqual(["mcp/sdkConnection.ts", "mcp/sdkErrors.ts", "mcp/sdkRenewal.ts"]); // prettier-ignore
    expect(importing(/from "[./\w]*\/mcp(?:Agent|Handler)\//)).toEqual([]);
    expect(importing(/from "[./\w]*\/sdk(?:Connection|Errors|Renewal)\.ts"/)).toEqual(["mcp/sdkConnection.ts"]); // prettier-ignore
  });
});

describe("names and texts", () => {
  test.each([
    ["GitHub", "github"],
    ["My Server!", "my-server"],
    ["--a__b--", "a-b"],
    ["1password", "id-1password"],
    ["x".repeat(80), "x".repeat(64)],
    [`${"x".repeat(63)}-y`, "x".repeat(63)],
  ])("normalizeServerId(%s) is %s", (name, id) => {
    expect(normalizeServerId(name)).toBe(id);
    expect(normalizeServerId(id)).toBe(id);
  });
  test("normalizeServerId refuses a name that normalizes to nothing", () => {
    expect(() => normalizeServerId("---")).toThrow(TypeError);
  });
  test("an error's text has no control characters, and at most 500 characters", () => {
    expect(errorText(new Error("a\u001b[31m\r\nb"))).toBe("a [31m b");
    expect(errorText("y".repeat(501))).toBe(`${"y".repeat(500)}...`);
    expect(errorText("y".repeat(500))).toBe("y".repeat(500));
  });
});
