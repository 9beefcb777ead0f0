/** How far an MCP server of an agent is connected, and what attempts to connect it end with. */

export type McpServerState =
  | "not-connected"
  | "authenticating"
  | "connecting"
  | "connected"
  | "discovering"
  | "ready"
  | "failed";

export type McpConnectionResult =
  | { readonly state: "connected" }
  | { readonly state: "authenticating"; readonly authUrl: string; readonly clientId?: string }
  | { readonly state: "failed"; readonly error: string };

export interface McpDiscoverResult {
  readonly success: boolean;
  readonly state: McpServerState;
  readonly error?: string;
}
