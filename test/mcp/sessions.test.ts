/** Calls at the same time on one connection to an MCP server, when one of them is refused. */
import type { IncomingMessage, ServerResponse } from "node:http";
import { afterEach, beforeAll, describe, expect, test } from "vitest";
import { callable } from "agents";
import { McpRequestFailed, type McpConnection } from "../../core/mcp/McpClients.ts";
import { McpRequests } from "../../core/mcp/McpRequests.ts";
import type { McpServer } from "../../core/mcp/McpServer.ts";
import { pollUntil } from "../kit/poll.ts";
import { TestSocket, useSystems, type System } from "../system/kit.ts";
import { listen, rpc } from "./kit.ts";
import { ToolAgent } from "./toolModule.ts";

class CallerAgent extends ToolAgent {
  /** The texts of calls of one turn, or why they failed. */
  @callable()
  async calls(...names: string[]) {
    const results = await Promise.allSettled(
      names.map((name) => this.mcp.callTool({ serverId: "s", name })),
    );
    return results.map((result) =>
      result.status === "fulfilled" ? result.value.content[0]?.["text"] : String(result.reason),
    );
  }
}

const systems = useSystems();
let system: System;
beforeAll(async () => {
  system = await systems.start({ agents: { CallerAgent } });
});
const stops: Array<() => Promise<void>> = [];
afterEach(async () => {
  for (const stop of stops.splice(0)) await stop();
});

interface Call {
  readonly name: string;
  readonly isKnown: boolean;
  /** The tool runs, and says its name. */
  readonly run: () => void;
  readonly refuse: (status: number) => void;
}

/** A server by hand, whose calls the test answers. With sessions, it can forget them. */
async function serve({ hasSessions }: { readonly hasSessions: boolean }) {
  const sessions = new Set<string>();
  const calls: Call[] = [];
  let opened = 0;
  const answer = (request: IncomingMessage, response: ServerResponse, text: string): void => {
    const { id, method, params } = JSON.parse(text) as {
      id?: number;
      method: string;
      params?: { name: string };
    };
    const session = String(request.headers["mcp-session-id"]);
    const reply = (result: unknown): void =>
      void response.end(JSON.stringify({ jsonrpc: "2.0", id, result }));
    response.setHeader("content-type", "application/json");
    if (method === "initialize") {
      opened += 1;
      sessions.add(`session-${opened}`);
      if (hasSessions) response.setHeader("mcp-session-id", `session-${opened}`);
      reply({ protocolVersion: "2025-06-18", capabilities: { tools: {} }, serverInfo: { name: "s", version: "1" } }); // prettier-ignore
    } else if (method === "tools/list") {
      reply({ tools: [{ name: "t", inputSchema: { type: "object" } }] });
    } else if (method === "tools/call") {
      const { name } = params!;
      calls.push({
        name,
        isKnown: !hasSessions || sessions.has(session),
        run: () => reply({ content: [{ type: "text", text: name }] }),
        refuse: (status) => void response.writeHead(status).end("refused"),
      });
    } else response.writeHead(202).end();
  };
  const server = await listen((request, response) => {
    if (request.method !== "POST") return response.writeHead(405).end();
    let text = "";
    request.on("data", (part: Buffer) => (text += String(part)));
    request.on("end", () => answer(request, response, text));
  });
  stops.push(server.close);
  return {
    url: server.url,
    forget: () => sessions.clear(),
    opened: () => opened,
    /** The next call of that name, in a session that the server knows or not. */
    called: (name: string, isKnown = true): Promise<Call> =>
      pollUntil<Call>(`${name} is called`, () => {
        const at = calls.findIndex((call) => call.name === name && call.isKnown === isKnown);
        return at < 0 ? { done: false as const, saw: calls } : calls.splice(at, 1)[0]!;
      }),
  };
}

const open = (name: string) => TestSocket.open(`${system.url}/agents/caller-agent/${name}`);

describe("calls on one connection", () => {
  test("are all sent again when the server has forgotten the session, whenever it refuses each", async () => {
    const server = await serve({ hasSessions: true });
    const socket = await open("forgotten");
    await rpc(socket, "add", "S", server.url, { id: "s" });
    server.forget();
    const results = rpc(socket, "calls", "first", "second", "third");
    const lost = [];
    for (const name of ["first", "second", "third"]) lost.push(await server.called(name, false));
    lost[0]!.refuse(404);
    (await server.called("first")).run();
    lost[1]!.refuse(404);
    const second = await server.called("second");
    lost[2]!.refuse(400);
    (await server.called("third")).run();
    second.run();
    expect(await results).toEqual(["first", "second", "third"]);
    expect(server.opened()).toBe(2);
  });

  test.each([
    ["with sessions", true, 2],
    ["without sessions", false, 1],
  ])("go on when the server, %s, refuses one with 400", async (name, hasSessions, opened) => {
    const server = await serve({ hasSessions });
    const socket = await open(name.replace(" ", "-"));
    await rpc(socket, "add", "S", server.url, { id: "s" });
    const [slow, bad] = [rpc(socket, "calls", "slow"), rpc(socket, "calls", "bad")];
    const running = await server.called("slow");
    (await server.called("bad")).refuse(400);
    // It may be the session: the call is sent once more.
    if (hasSessions) (await server.called("bad")).refuse(400);
    expect(await bad).toEqual([expect.stringContaining("refused")]);
    running.run();
    expect(await slow).toEqual(["slow"]);
    const after = rpc(socket, "calls", "after");
    (await server.called("after")).run();
    expect(await after).toEqual(["after"]);
    expect(server.opened()).toBe(opened);
  });

  test("end when the server is removed, also on a connection whose session is lost", async () => {
    const server = await serve({ hasSessions: true });
    const socket = await open("removed");
    await rpc(socket, "add", "S", server.url, { id: "s" });
    const calls = rpc<string[]>(socket, "calls", "slow", "other");
    await server.called("slow");
    (await server.called("other")).refuse(404);
    await server.called("other");
    await rpc(socket, "remove", "s");
    for (const result of await calls) expect(result).toMatch(/closed/i);
  });
});

test("a request that is refused asks for consent for the connection that it was sent on", async () => {
  const [old, next] = [{}, {}] as [McpConnection, McpConnection];
  const asked: McpConnection[] = [];
  const server = {
    connection: old,
    unauthorized: (connection: McpConnection) => asked.push(connection),
    get latest(): unknown {
      return this;
    },
  };
  const runtime = {
    flush: async () => undefined,
    abandoned: { signal: new AbortController().signal },
  };
  const requests = new McpRequests(runtime as never, async () => undefined);
  const refused = new McpRequestFailed({ reason: "Unauthorized", message: "no" });
  const send = requests.send(server as unknown as McpServer, {}, async () => {
    server.connection = next;
    throw refused;
  });
  await expect(send).rejects.toBe(refused);
  expect(asked).toEqual([old]);
  expect(asked[0]).toBe(old);
});
