/** Names of the SDK that apps import from `agents/mcp`, as the reference has them. */
import { SSEClientTransport, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { ElicitRequestSchema as SdkElicitRequestSchema } from "@modelcontextprotocol/sdk/types.js";

/** The SDK's schema of a request that asks the user. */
export const ElicitRequestSchema = SdkElicitRequestSchema;

/** @deprecated Use the SDK's `SSEClientTransport`. */
export class SSEEdgeClientTransport extends SSEClientTransport {}

/** @deprecated Use the SDK's `StreamableHTTPClientTransport`. */
export class StreamableHTTPEdgeClientTransport extends StreamableHTTPClientTransport {}
