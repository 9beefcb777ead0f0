/**
 * What the driven examples reach in place of services on the internet: an API of language models in
 * the shape of OpenAI's `/responses`, whose answers depend on the request alone, an MCP server with
 * a tool that adds and one that asks its user, and a mail relay. On loopback, in this process.
 */
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { McpServer } from "@modelcontextprotocol/sdk/server/mcp.js";
import { StreamableHTTPServerTransport } from "@modelcontextprotocol/sdk/server/streamableHttp.js";
import express from "express";
import { SMTPServer } from "smtp-server";
import { z } from "zod";
import { answerOf, eventsOf, type ModelRequest } from "./answerOf.ts";

export interface LocalServices {
  /** For `OPENAI_BASE_URL`. */
  readonly modelUrl: string;
  readonly mcpUrl: string;
  /** For `SMTP_URL`. */
  readonly smtpUrl: string;
  readonly stop: () => Promise<void>;
}

export async function startLocalServices(): Promise<LocalServices> {
  const app = express();
  app.post("/v1/responses", express.json({ limit: "1mb" }), (request, response) => {
    const asked = request.body as ModelRequest;
    const answer = answerOf(asked);
    if (asked.stream !== true) return void response.json(answer);
    response.type("text/event-stream");
    for (const event of eventsOf(answer))
      response.write(`event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`);
    response.end();
  });
  serveTools(app);
  const server = createServer(app).listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  const relay = new SMTPServer({
    authOptional: true,
    hideSTARTTLS: true,
    onData: (stream, _session, done) => void stream.on("end", () => done()).resume(),
  });
  const mail = relay.listen(0, "127.0.0.1");
  await once(mail, "listening");
  return {
    modelUrl: `http://127.0.0.1:${port}/v1`,
    mcpUrl: `http://127.0.0.1:${port}/mcp`,
    smtpUrl: `smtp://127.0.0.1:${(mail.address() as AddressInfo).port}`,
    stop: async () => {
      relay.close();
      server.closeAllConnections();
      server.close();
      await once(server, "close");
    },
  };
}

function serveTools(app: express.Express): void {
  const sessions = new Map<string, StreamableHTTPServerTransport>();
  app.all("/mcp", express.json(), async (request, response) => {
    const known = sessions.get(request.header("mcp-session-id") ?? "");
    const transport = known ?? (await connected(sessions));
    await transport.handleRequest(request, response, request.body);
  });
}

async function connected(
  sessions: Map<string, StreamableHTTPServerTransport>,
): Promise<StreamableHTTPServerTransport> {
  const transport: StreamableHTTPServerTransport = new StreamableHTTPServerTransport({
    sessionIdGenerator: randomUUID,
    onsessioninitialized: (id) => void sessions.set(id, transport),
  });
  const server = new McpServer({ name: "tools", version: "1" }, { instructions: "Add." });
  server.registerTool(
    "add",
    { description: "Adds", inputSchema: { a: z.number(), b: z.number() } },
    ({ a, b }) => ({ content: [{ type: "text", text: `${a + b}` }] }),
  );
  server.registerTool("ask", { description: "Asks" }, async () => {
    const { action, content } = await server.server.elicitInput({
      message: "Which colour?",
      requestedSchema: { type: "object", properties: { colour: { type: "string" } } },
    });
    return { content: [{ type: "text", text: `${action} ${JSON.stringify(content ?? null)}` }] };
  });
  await server.connect(transport as never);
  return transport;
}
