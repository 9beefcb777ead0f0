/** What MCP servers answer: a real HTTP server that says anything, and the agents' client. */
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { McpRequestFailed, type McpConnectOptions } from "../../../core/mcp/McpClients.ts";
import { makeMcpClients } from "../../../services/mcp/McpClientsLayer.ts";
import { collectingLog } from "../../kit/system.ts";
import { Broken, joined, partsOf, type FuzzTarget } from "../Target.ts";

const HELLO = JSON.stringify({ jsonrpc: "2.0", id: 0, result: { protocolVersion: "2025-06-18", capabilities: { tools: {}, resources: {}, prompts: {} }, serverInfo: { name: "s", version: "1" } } }); // prettier-ignore
const TOOLS = JSON.stringify({ jsonrpc: "2.0", id: 1, result: { tools: [{ name: "t", inputSchema: { type: "object" } }], nextCursor: "c" } }); // prettier-ignore
const CALLED = JSON.stringify({ jsonrpc: "2.0", id: 2, result: { content: [{ type: "text", text: "x" }] } }); // prettier-ignore
const REFUSED = JSON.stringify({ jsonrpc: "2.0", id: 1, error: { code: -32601, message: "no" } });

/** An answer that is no event has to come in this time; a test's own server is quick. */
const TIMEOUT_MS = 500;
const STATUSES = [200, 200, 200, 200, 202, 400, 401, 404, 405, 500, 307, 204];

function answer(input: Uint8Array) {
  const [type, ...bodies] = partsOf(input.subarray(1), 5);
  const status = STATUSES[(input[0] ?? 0) % STATUSES.length]!;
  let asked = 0;
  return (request: IncomingMessage, response: ServerResponse): void => {
    let text = "";
    request.on("data", (part: Buffer) => (text += String(part)));
    request.on("end", () => {
      const id = /"id":(\d+)/.exec(text)?.[1];
      if (request.method !== "POST" || id === undefined) return void response.writeHead(id === undefined && request.method === "POST" ? 202 : 405).end(); // prettier-ignore
      const body = bodies[Math.min(asked++, bodies.length - 1)]!.toString("latin1");
      response.writeHead(asked === 1 ? status : 200, { "content-type": type!.toString("latin1").replace(/[^\t\x20-\xff]/g, "") || "application/json" }); // prettier-ignore
      response.end(Buffer.from(body.replace(/"id":\s*\d+/, `"id":${id}`), "latin1"));
    });
  };
}

async function open() {
  const clients = makeMcpClients({ allowLoopback: true, log: collectingLog() });
  let handle: ReturnType<typeof answer> = (_request, response) => void response.end();
  const server = createServer((request, response) => handle(request, response));
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/mcp`;
  return {
    run: async (input: Uint8Array) => {
      handle = answer(input);
      const result = await clients.connect({
        url,
        transport: "streamable-http",
        headers: {},
        skipIssuerMetadataValidation: false,
        auth: { redirectUrl: undefined } as never,
        renewing: (renew) => renew(),
        signal: AbortSignal.timeout(TIMEOUT_MS),
        client: { name: "fuzz", version: "1" },
        capabilities: {},
        onListChanged: () => undefined,
        onClosed: () => undefined,
        elicit: async () => ({ action: "cancel" }),
      } satisfies McpConnectOptions);
      if (result._tag !== "Connected") return;
      const { connection } = result;
      const options = { timeout: TIMEOUT_MS };
      const asked = [
        () => connection.list("tools", options),
        () => connection.callTool({ name: "t" }, options),
        () => connection.readResource({ uri: "a:b" }, options),
        () => connection.getPrompt({ name: "p" }, options),
      ];
      for (const ask of asked)
        await ask().catch((error: unknown) => {
          if (!(error instanceof McpRequestFailed))
            throw new Broken(`rejects with ${String(error)}`);
        });
      await connection.close();
    },
    close: async () => {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

const seed = (status: number, type: string, ...bodies: string[]): Uint8Array =>
  Buffer.concat([Buffer.from([status]), joined(type, ...bodies)]);

export const mcpTargets: ReadonlyArray<FuzzTarget> = [
  {
    name: "mcp",
    seeds: [
      seed(0, "application/json", HELLO, TOOLS, CALLED, REFUSED),
      seed(0, "text/event-stream", `event: message\ndata: ${HELLO}\n\n`, `id: 1\ndata: ${TOOLS}\n\n`, CALLED),
      seed(6, "text/html", "<html>", ""),
    ],
    words: ["data: ", "\n\n", "event: ", "id: ", "retry: ", '"jsonrpc":"2.0"', '"method":"ping"', '"error":', '"result":', "text/event-stream", "; charset="],
    open,
  },
]; // prettier-ignore
