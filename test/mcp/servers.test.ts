/** An agent and the protocol's reference server, over both transports. */
import { AgentClient } from "reference-agents/client";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import WebSocket from "ws";
import { genericObservability } from "../../services/observability/index.ts";
import { pollUntil } from "../kit/poll.ts";
import { TestSocket, useSystems, type System } from "../system/kit.ts";
import { hibernated, mcpFrames, rpc, startEverything, untilMcp, type Everything } from "./kit.ts";
import { ToolAgent } from "./toolModule.ts";

const events: Array<{ type: string; payload: unknown }> = [];
class WatchedAgent extends ToolAgent {
  override observability = {
    emit: (event: Parameters<typeof genericObservability.emit>[0]) => void events.push(event),
  };
}

const systems = useSystems();
let system: System;
let streamable: Everything;
let sse: Everything;
beforeAll(async () => {
  [system, streamable, sse] = await Promise.all([
    systems.start({ agents: { ToolAgent, WatchedAgent } }),
    startEverything("streamableHttp"),
    startEverything("sse"),
  ]);
});
afterAll(async () => {
  await Promise.all([streamable?.stop(), sse?.stop()]);
});

const open = (name: string, agent = "tool-agent") =>
  TestSocket.open(`${system.url}/agents/${agent}/${name}`);
const toolNames = (mcp: { readonly tools: ReadonlyArray<{ readonly name: string }> }) =>
  mcp.tools.map(({ name }) => name);

interface ToolResult {
  readonly content: ReadonlyArray<{ readonly text?: string }>;
  readonly isError?: boolean;
}

describe("the reference server", () => {
  test.each(["streamable-http", "sse"] as const)(
    "works over %s: tools, prompts and resources",
    async (type) => {
      // prettier-ignore
      const { url } = type === "sse" ? sse : streamable;
      const socket = await open(`whole-${type}`);
      const added = await rpc<{ id: string; state: string }>(socket, "add", "Everything", url, { id: "Every Thing", transport: { type } }); // prettier-ignore
      expect(added).toEqual({ id: "every-thing", state: "ready" });
      const mcp = await rpc<ReturnType<ToolAgent["servers"]>>(socket, "servers");
      expect(mcp.servers["every-thing"]).toMatchObject({ name: "Everything", server_url: url, state: "ready", error: null, auth_url: null }); // prettier-ignore
      expect(mcp.servers["every-thing"]?.capabilities).toHaveProperty("tools");
      expect(toolNames(mcp)).toContain("echo");
      expect(mcp.tools.every(({ serverId }) => serverId === "every-thing")).toBe(true);
      expect(mcp.prompts.length).toBeGreaterThan(0);
      expect(mcp.resources.length).toBeGreaterThan(0);
      const echo = await rpc<ToolResult>(socket, "call", "every-thing", "echo", {
        message: "hello",
      });
      expect(echo.content[0]?.text).toBe("Echo: hello");
      const { uri } = mcp.resources[0]!;
      const read = await rpc<{ contents: Array<{ uri: string }> }>(socket, "read", "every-thing", uri); // prettier-ignore
      expect(read.contents[0]?.uri).toBe(uri);
      const prompt = await rpc<{ messages: unknown[] }>(socket, "prompt", "every-thing", "simple-prompt", {}); // prettier-ignore
      expect(prompt.messages.length).toBeGreaterThan(0);
      expect(await rpc<unknown[]>(socket, "templates")).not.toEqual([]);
      await rpc(socket, "remove", "every-thing");
      expect(await rpc(socket, "servers")).toEqual({ servers: {}, tools: [], prompts: [], resources: [] }); // prettier-ignore
    },
  );

  test("is reached by auto over the older transport without configuration", async () => {
    const socket = await open("auto");
    const { id } = await rpc<{ id: string }>(socket, "add", "Old", sse.url);
    const echo = await rpc<ToolResult>(socket, "call", id, "echo", { message: "old" });
    expect(echo.content[0]?.text).toBe("Echo: old");
  });

  test("is reused under the same name and URL; an id in use by another server is refused", async () => {
    const socket = await open("twice");
    const first = await rpc<{ id: string }>(socket, "add", "One", streamable.url);
    expect(await rpc(socket, "add", "One", streamable.url)).toEqual(first);
    // A stable id given later takes its place.
    expect(await rpc(socket, "add", "One", streamable.url, { id: "one" })).toEqual({ id: "one", state: "ready" }); // prettier-ignore
    expect(await rpc<unknown[]>(socket, "rows")).toHaveLength(1);
    await expect(rpc(socket, "add", "Two", sse.url, { id: "one" })).rejects.toThrow('"one" is taken by "One"'); // prettier-ignore
  });

  test("reports a missing tool as an error, and a failing tool as a result", async () => {
    const socket = await open("errors");
    const { id } = await rpc<{ id: string }>(socket, "add", "E", streamable.url);
    const outcome = await rpc<ToolResult>(socket, "call", id, "absent", {}).catch(String);
    expect(JSON.stringify(outcome)).toMatch(/absent/);
    expect(await rpc(socket, "ping")).toBe("pong");
  });
});

describe("clients", () => {
  test("receive every change, and the whole list when they connect", async () => {
    const socket = await open("told");
    expect(mcpFrames(socket)).toEqual([{ servers: {}, tools: [], prompts: [], resources: [] }]);
    const { id } = await rpc<{ id: string }>(socket, "add", "T", streamable.url);
    const states = mcpFrames(socket).map(({ servers }) => servers[id]?.state);
    expect(states).toEqual([undefined, "not-connected", "connecting", "connected", "discovering", "ready"]); // prettier-ignore
    const late = await open("told");
    await late.first(2);
    expect(mcpFrames(late)[0]).toEqual(mcpFrames(socket).at(-1));
    await rpc(socket, "remove", id);
    await untilMcp(late, "it is gone", ({ servers }) => Object.keys(servers).length === 0);
  });

  test("of the reference's published package receive the frame", async () => {
    const frames: Array<{ type: string; mcp: { servers: Record<string, { state: string }> } }> = [];
    const client = new AgentClient({ host: system.url.replace("http://", ""), agent: "ToolAgent", name: "published", WebSocket } as never); // prettier-ignore
    try {
      client.addEventListener("message", (event) => {
        const frame = JSON.parse(String((event as MessageEvent).data)) as (typeof frames)[number];
        if (frame.type === "cf_agent_mcp_servers") frames.push(frame);
      });
      await client.ready;
      const { id } = (await client.call("add", ["P", streamable.url])) as { id: string };
      await pollUntil("its ready state is seen", () => frames.at(-1)?.mcp.servers[id]?.state === "ready"); // prettier-ignore
    } finally {
      client.close();
    }
  });

  test("receive events about what happened", async () => {
    const socket = await open("events", "watched-agent");
    const { id } = await rpc<{ id: string }>(socket, "add", "W", streamable.url);
    await rpc(socket, "remove", id);
    const mcp = events.filter(({ type }) => type.startsWith("mcp:"));
    expect(mcp.map(({ type }) => type)).toEqual([
      "mcp:client:preconnect",
      "mcp:client:connect",
      "mcp:client:discover",
      "mcp:client:close",
    ]);
    expect(mcp[1]?.payload).toEqual({ url: streamable.url, transport: "streamable-http", state: "connected" }); // prettier-ignore
  });
});

describe("a server", () => {
  test("is reconnected after hibernation", async () => {
    // A host of its own: what hibernates on it is this agent.
    const { host, url: base } = await systems.start({ agents: { ToolAgent } });
    const socket = await TestSocket.open(`${base}/agents/tool-agent/sleeper`);
    const { id } = await rpc<{ id: string }>(socket, "add", "S", streamable.url);
    const seen = mcpFrames(socket).length;
    await hibernated(host);
    expect(await rpc(socket, "ping")).toBe("pong");
    await untilMcp(socket, "it is ready again", ({ servers }) => servers[id]?.state === "ready", seen); // prettier-ignore
    const echo = await rpc<ToolResult>(socket, "call", id, "echo", { message: "awake" });
    expect(echo.content[0]?.text).toBe("Echo: awake");
  });

  test.each(["streamableHttp", "sse"] as const)(
    "that is restarted (%s) is used again without intervention",
    async (transport) => {
      // prettier-ignore
      const first = await startEverything(transport);
      const socket = await open(`restart-${transport}`);
      const { id } = await rpc<{ id: string }>(socket, "add", "R", first.url);
      await first.stop();
      const second = await startEverything(transport, first.port);
      try {
        const echo = await pollUntil("the tool answers again", () =>
          rpc<ToolResult>(socket, "call", id, "echo", { message: "again" }),
        );
        expect(echo.content[0]?.text).toBe("Echo: again");
      } finally {
        await second.stop();
      }
    },
  );
});
