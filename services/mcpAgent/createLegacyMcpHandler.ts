/**
 * `createLegacyMcpHandler`: a server of the SDK's version 1 behind one path, with a transport that
 * the app keeps, for example in an agent.
 */
import type { McpServer } from "@modelcontextprotocol/sdk/server/mcp.js";
import type { Server } from "@modelcontextprotocol/sdk/server/index.js";
import { authContextOf, withAuthContext, type McpAuthContext } from "../mcpHandler/authContext.ts";
import { WorkerTransport, type WorkerTransportOptions } from "./WorkerTransport.ts";

/** Options of `createLegacyMcpHandler`, and of the transport that it makes. */
export interface CreateLegacyMcpHandlerOptions extends WorkerTransportOptions {
  /** The path that is answered; others are 404. Default `/mcp`. */
  readonly route?: string;
  /** What `getMcpAuthContext` returns in tools. Default: `ctx.props` of the request. */
  readonly authContext?: McpAuthContext;
  /** The transport of a session. Default: one without sessions, for one request. */
  readonly transport?: WorkerTransport;
}

/** Call it in a module's `fetch`, or in an agent. */
export type LegacyMcpHandler = (
  request: Request,
  env?: unknown,
  ctx?: unknown,
) => Promise<Response>;

/**
 * A server answers one request without a `transport`: make it, and the handler, for each request.
 * The handler rejects with an `Error` that says so at the second one.
 */
export function createLegacyMcpHandler(
  server: McpServer | Server,
  options: CreateLegacyMcpHandlerOptions = {},
): LegacyMcpHandler {
  const { route = "/mcp", authContext, transport: given, ...transportOptions } = options;
  let connected: Promise<void> | undefined;
  return async (request, _env, ctx) => {
    if (new URL(request.url).pathname !== route) return new Response("Not Found", { status: 404 });
    const transport = given ?? new WorkerTransport(transportOptions);
    if (given === undefined && connected !== undefined)
      throw new Error(
        "This MCP server is answering a request, or has answered one. Create the server and its handler for each request, or pass a transport with a sessionIdGenerator",
      );
    connected ??= transport.started ? Promise.resolve() : server.connect(transport);
    await connected;
    return withAuthContext(authContext ?? authContextOf(ctx), () =>
      transport.handleRequest(request),
    );
  };
}
