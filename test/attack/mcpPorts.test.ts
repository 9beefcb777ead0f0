/** A client that may name MCP servers scans ports through its agent, over real processes. */
import { createServer as createHttpServer } from "node:http";
import { createServer, type AddressInfo, type Server } from "node:net";
import { afterAll, beforeAll, expect, test } from "vitest";
import { rpc } from "../mcp/kit.ts";
import { ToolAgent } from "../mcp/toolModule.ts";
import { TestSocket, useSystems } from "../system/kit.ts";

const systems = useSystems();
const servers: Server[] = [];
/** Ports, by the server behind them. */
const ports: Record<string, number> = {};
let connections = 0;

async function listen(what: string, server: Server): Promise<void> {
  server.on("connection", () => connections++);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  servers.push(server);
  ports[what] = (server.address() as AddressInfo).port;
}

beforeAll(async () => {
  await listen(
    "a page",
    createHttpServer((_request, response) => response.end("<p>internal</p>")),
  );
  await listen("a refusal", createHttpServer((_request, response) => response.writeHead(403).end("internal"))); // prettier-ignore
  await listen("a log-in", createHttpServer((_request, response) => response.writeHead(401, { "www-authenticate": 'Basic realm="internal"' }).end())); // prettier-ignore
  await listen("no HTTP", createServer((socket) => socket.on("error", () => undefined).end("SSH-2.0-internal\r\n"))); // prettier-ignore
  await listen("a cut", createServer((socket) => socket.on("error", () => undefined).resetAndDestroy())); // prettier-ignore
  const closed = createServer();
  await listen("nothing", closed);
  await new Promise((resolve) => closed.close(resolve));
});
afterAll(() => {
  for (const server of servers) server.close();
});

/** What the client learns about each port: its error, and the frame about the agent's servers. */
async function scan(mcpAllowLoopback: boolean): Promise<ReadonlyArray<string>> {
  const { url } = await systems.start({ agents: { ToolAgent } }, { mcpAllowLoopback });
  const told: string[] = [];
  for (const [what, port] of Object.entries(ports)) {
    const socket = await TestSocket.open(`${url}/agents/tool-agent/${port}`);
    const error = await rpc(socket, "add", what, `http://127.0.0.1:${port}/mcp`).catch(String);
    const { servers: listed } = await rpc<ReturnType<ToolAgent["servers"]>>(socket, "servers");
    told.push(JSON.stringify([error, Object.values(listed).map((one) => [one.state, one.error])]).replaceAll(String(port), "PORT").replace(` "${what}"`, "").replace(` \\"${what}\\"`, "")); // prettier-ignore
    socket.close();
  }
  return [...new Set(told)];
}

test("local ports are not reached, and all attempts return the same error", async () => {
  connections = 0;
  expect(await scan(false)).toEqual([
    '["Error: Blocked URL: http://127.0.0.1:PORT/mcp: it is this machine, which is only allowed in agents dev or with --mcp-allow-loopback",[]]',
  ]);
  expect(connections).toBe(0);
});

test("with loopback allowed, an open port without an MCP server looks like a closed port", async () => {
  connections = 0;
  expect(await scan(true)).toEqual([
    '["Error: The MCP server can\'t be connected to: No MCP server can be reached at this URL",[["failed","No MCP server can be reached at this URL"]]]',
  ]);
  expect(connections).toBeGreaterThan(3);
});
