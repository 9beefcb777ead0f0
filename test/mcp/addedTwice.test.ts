/** One MCP server that is added by several callers at the same time, and while calls run on it. */
import { afterAll, beforeAll, expect, test } from "vitest";
import { callable } from "agents";
import { TestSocket, useSystems, type System } from "../system/kit.ts";
import { listen, rpc } from "./kit.ts";
import { ToolAgent } from "./toolModule.ts";

class AddingAgent extends ToolAgent {
  @callable()
  async lateCall(id: string) {
    return (await this.mcp.callTool({ serverId: id, name: "t" })).content[0]!["text"];
  }
}

const systems = useSystems();
let system: System;
/** A server whose answers to these methods wait. */
let mcp: Awaited<ReturnType<typeof listen>>;
const held = new Map<string, { readonly asked: () => void; readonly until: Promise<void> }>();
/** The first answer to `method` waits for `release`; `asked` resolves when it is wanted. */
function hold(method: string) {
  let asked = (): void => undefined;
  let release = (): void => undefined;
  const isAsked = new Promise<void>((resolve) => (asked = resolve));
  const until = new Promise<void>((resolve) => (release = resolve));
  held.set(method, { asked, until });
  return { isAsked, release };
}
const RESULTS: Readonly<Record<string, object>> = {
  initialize: { protocolVersion: "2025-06-18", capabilities: { tools: {} }, serverInfo: { name: "s", version: "1" } }, // prettier-ignore
  "tools/list": { tools: [{ name: "t", inputSchema: { type: "object" } }] },
  "tools/call": { content: [{ type: "text", text: "done" }] },
};

beforeAll(async () => {
  system = await systems.start({ agents: { AddingAgent } });
  mcp = await listen(async (request, response) => {
    if (request.method !== "POST") return void response.writeHead(405).end();
    let text = "";
    for await (const part of request) text += String(part);
    const { id, method } = JSON.parse(text) as { readonly id?: number; readonly method: string };
    const result = RESULTS[method];
    if (result === undefined) return void response.writeHead(202).end();
    const waits = held.get(method);
    held.delete(method);
    waits?.asked();
    await waits?.until;
    response.setHeader("content-type", "application/json");
    response.end(JSON.stringify({ jsonrpc: "2.0", id, result }));
  });
});
afterAll(() => mcp?.close());

const open = (name: string, host = system.url) =>
  TestSocket.open(`${host}/agents/adding-agent/${name}`);
const add = (socket: TestSocket, header?: string, id = "s") =>
  rpc(socket, "add", "S", mcp.url, { id, ...(header === undefined ? {} : { transport: { headers: { "x-a": header } } }) }); // prettier-ignore
const READY = { id: "s", state: "ready" };

test.each(["initialize", "tools/list"])(
  "two callers with other options are both answered when the first is in %s",
  async (method) => {
    const socket = await open(`options-${method.replace("/", "-")}`);
    const first = hold(method);
    const one = add(socket, "1");
    await first.isAsked;
    expect(await add(socket, "2")).toEqual(READY);
    first.release();
    expect(await one).toEqual(READY);
    const [row] = await rpc<Array<{ server_options: string }>>(socket, "rows");
    expect(row!.server_options).toContain('"x-a":"2"');
  },
);

test("callers from two origins are both answered", async () => {
  const [here, there] = await Promise.all([open("origins"), open("origins", system.url.replace("127.0.0.1", "localhost"))]); // prettier-ignore
  const first = hold("initialize");
  const one = add(here);
  await first.isAsked;
  expect(await add(there)).toEqual(READY);
  first.release();
  expect(await one).toEqual(READY);
});

test("a call that waits for a server that is replaced is made on the other", async () => {
  const socket = await open("waits");
  const first = hold("initialize");
  const one = add(socket, "1");
  await first.isAsked;
  const call = rpc(socket, "lateCall", "s");
  expect(await rpc(socket, "ping")).toBe("pong");
  expect(await add(socket, "2")).toEqual(READY);
  first.release();
  expect(await Promise.all([one, call])).toEqual([READY, "done"]);
});

test("a server that receives a stable id answers the calls that run on it", async () => {
  const socket = await open("renamed");
  const { id } = await rpc<{ id: string }>(socket, "add", "S", mcp.url, {});
  const running = hold("tools/call");
  const call = rpc(socket, "lateCall", id);
  await running.isAsked;
  expect(await add(socket)).toEqual(READY);
  running.release();
  expect(await call).toBe("done");
});
