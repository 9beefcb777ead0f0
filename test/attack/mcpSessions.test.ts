/** A client of an MCP server that calls tools and never reads: the host keeps little of it. */
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, expect, test } from "vitest";
import { RawClient } from "../http/kit.ts";
import type { AgentsProcess } from "../kit/AgentsProcess.ts";
import { Installation } from "../kit/Installation.ts";
import { pollUntil } from "../kit/poll.ts";
import { connectClient } from "../mcpAgent/kit.ts";

const MODULE = fileURLToPath(new URL("./socketModule.ts", import.meta.url));
/** Starts and polls on a busy machine. */
const TEST_TIMEOUT_MS = 300_000;
const POLL_TIMEOUT_MS = 90_000;

let installation: Installation;
let host: AgentsProcess;
let url: string;
let port: number;
beforeAll(async () => {
  installation = await Installation.start({ shards: 4, module: MODULE });
  host = await installation.startHost("host-1");
  await Promise.all([host.ready(), installation.gateway.ready()]);
  ({ url } = installation.gateway);
  port = Number(new URL(url).port);
}, TEST_TIMEOUT_MS);
afterAll(() => installation?.stop(), TEST_TIMEOUT_MS);

const calling = (id: number, name: string, args: object) => ({
  jsonrpc: "2.0",
  id,
  method: "tools/call",
  params: { name, arguments: args },
});

/** A GET for a stream, of which nothing is read after `isOpen`. */
async function unread(head: string, isOpen: RegExp): Promise<RawClient> {
  const client = await RawClient.connect(port);
  client.send(`GET ${head}\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n`);
  await pollUntil("the stream is open", () => isOpen.test(client.text), {
    timeoutMs: POLL_TIMEOUT_MS,
  });
  client.socket.pause();
  return client;
}

const neighbourIsServed = async (): Promise<void> => {
  const { call, client } = await connectClient(`${url}/mcp`);
  expect(await call("add", { n: 1 })).toBe("1");
  await client.close();
};

/** What the connections to the client hold is beside the host's limit of 16 MiB. */
const MIB_TAKEN_MAX = 64;

test("the older transport's session ends when its client has not read 16 MiB", async () => {
  using client = await unread("/sse HTTP/1.1", /sessionId=\S+/);
  const session = /sessionId=(\S+)/.exec(client.text)![1]!;
  const send = async (id: number): Promise<number> => {
    const body = JSON.stringify(calling(id, "large", { size: 1024 * 1024 }));
    const { status } = await fetch(`${url}/sse/message?sessionId=${session}`, { method: "POST", body }); // prettier-ignore
    return status;
  };
  const statuses: number[] = [];
  while (statuses.length < MIB_TAKEN_MAX && (statuses.at(-1) ?? 202) === 202)
    statuses.push(await send(statuses.length));
  const logged = host.lines.slice(-20).map((line) => JSON.stringify(line));
  expect(statuses.at(-1), logged.join("\n")).toBe(404);
  expect(statuses.length, logged.join("\n")).toBeGreaterThan(9);
  await neighbourIsServed();
}, TEST_TIMEOUT_MS); // prettier-ignore
