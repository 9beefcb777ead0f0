/**
 * The package's entry `agents/mcp/server`: MCP servers without sessions, on the official SDK's
 * package `@modelcontextprotocol/server`, which the app installs.
 */
export { createMcpHandler, type CreateMcpHandlerOptions, type McpHandler } from "./createMcpHandler.ts"; // prettier-ignore
export type { CreateMcpHandlerOptions as CreateStatelessMcpHandlerOptions } from "./createMcpHandler.ts";
export type { McpHandler as StatelessMcpHandler } from "./createMcpHandler.ts";
export { getMcpAuthContext, type McpAuthContext } from "./authContext.ts";
export type { CORSOptions } from "./cors.ts";
