/** How far an MCP server of an agent is connected, and what attempts to connect it end with. */
import type { OAuthProvider } from "./OAuthProvider.ts";

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

/** `authError` may be text of an attacker: escape it for display. */
export type McpOAuthCallbackResult =
  | { readonly serverId: string; readonly authSuccess: true; readonly authError?: undefined }
  | { readonly serverId?: string; readonly authSuccess: false; readonly authError: string };

/** Why a server that requires authorization could not ask its user. */
export const whyRefused = (auth: OAuthProvider | undefined): string =>
  auth?.redirectUrl === undefined
    ? "The server requires authorization: pass headers with a token, or a callbackHost for OAuth"
    : "The server requires authorization, and its OAuth can't be used: pass headers with a token";

export const STILL_REFUSED = "The server refuses access although its user has just authorized it";

export const CLOSED = "The connection was closed meanwhile";
