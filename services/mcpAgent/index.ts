/**
 * The package's entry `agents/mcp`: MCP servers that have sessions, as agents, on the official
 * SDK's package `@modelcontextprotocol/sdk`, which the app installs.
 */
export { McpAgent, type McpTransportKind } from "./McpAgent.ts";
export type { McpRoute, ServeOptions } from "./serveMcp.ts";
export {
  WorkerTransport,
  type MCPStorageApi,
  type TransportState,
  type WorkerTransportOptions,
} from "./WorkerTransport.ts";
export { DurableObjectEventStore } from "./DurableObjectEventStore.ts";
export {
  createLegacyMcpHandler,
  type CreateLegacyMcpHandlerOptions,
  type LegacyMcpHandler,
} from "./createLegacyMcpHandler.ts";
export { createMcpHandler } from "./createMcpHandler.ts";
export { createLegacyMcpHandler as experimental_createMcpHandler } from "./createLegacyMcpHandler.ts";
export type { CreateMcpHandlerOptions, McpHandler } from "../mcpHandler/createMcpHandler.ts";
export { getMcpAuthContext, type McpAuthContext } from "../mcpHandler/authContext.ts";
export type { CORSOptions } from "../mcpHandler/cors.ts";
export { MCP_SERVER_ID_MAX_LENGTH, normalizeServerId } from "../../core/mcp/normalizeServerId.ts";
export {
  ElicitRequestSchema,
  SSEEdgeClientTransport,
  StreamableHTTPEdgeClientTransport,
} from "./referenceNames.ts";
