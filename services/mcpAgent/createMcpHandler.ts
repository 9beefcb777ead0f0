/**
 * `createMcpHandler` of `agents/mcp`, which takes what both versions of the SDK have: a function
 * that makes a server of version 2 (`agents/mcp/server`), or, as older apps do, a server of version
 * 1 itself.
 */
import type { McpServer } from "@modelcontextprotocol/sdk/server/mcp.js";
import type { Server } from "@modelcontextprotocol/sdk/server/index.js";
import type { McpServerFactory } from "@modelcontextprotocol/server";
import type { CreateMcpHandlerOptions, McpHandler } from "../mcpHandler/createMcpHandler.ts";
import {
  createLegacyMcpHandler,
  type CreateLegacyMcpHandlerOptions,
  type LegacyMcpHandler,
} from "./createLegacyMcpHandler.ts";

/** The SDK's version 2 is another package, which an app of version 1 has not installed. */
const stateless = await import("../mcpHandler/createMcpHandler.ts").catch(() => undefined);

/** @deprecated Pass a function that makes a server of the SDK's version 2. */
export function createMcpHandler(
  server: McpServer | Server,
  options?: CreateLegacyMcpHandlerOptions,
): LegacyMcpHandler;
/** As in `agents/mcp/server`. Throws an `Error` without `@modelcontextprotocol/server`. */
export function createMcpHandler(
  factory: McpServerFactory,
  options?: CreateMcpHandlerOptions,
): McpHandler;
export function createMcpHandler(
  given: McpServer | Server | McpServerFactory,
  options: CreateLegacyMcpHandlerOptions | CreateMcpHandlerOptions = {},
): LegacyMcpHandler | McpHandler {
  if (typeof given !== "function")
    return createLegacyMcpHandler(given, options as CreateLegacyMcpHandlerOptions);
  if (stateless === undefined)
    throw new Error(
      "createMcpHandler with a function needs the package @modelcontextprotocol/server: npm install @modelcontextprotocol/server",
    );
  return stateless.createMcpHandler(given, options as CreateMcpHandlerOptions);
}
