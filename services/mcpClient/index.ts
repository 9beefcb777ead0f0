/**
 * The package's entry `agents/mcp/client`: the names of what `this.mcp` and `addMcpServer` are made
 * of, without anything of servers.
 */
export { MCPClientManager } from "../../core/mcp/MCPClientManager.ts";
export { MCP_SERVER_ID_MAX_LENGTH, normalizeServerId } from "../../core/mcp/normalizeServerId.ts";
export type { ElicitRequest, ElicitResult } from "../../core/mcp/McpClients.ts";
export type { McpServersState } from "../../core/mcp/McpOffers.ts";
export type { AddMcpServerOptions, AddMcpServerResult, RegisterServerOptions } from "../../core/mcp/McpServerOptions.ts"; // prettier-ignore
