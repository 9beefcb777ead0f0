/**
 * The port for the Model Context Protocol's client side: connections to MCP servers over HTTP, and
 * the exchange of an OAuth code. `services/mcp` implements it on the official SDK; the manager
 * (`MCPClientManager`) keeps what is known of each server, and knows nothing of the wire.
 *
 * 1. Requests only go to addresses of the public internet or, if the operator allows it and the
 *    server itself is there, of this machine. The URL, the addresses that its name resolves to, and
 *    the connected peer are checked for every request, including redirects, OAuth discovery,
 *    registration and tokens.
 * 2. Every call ends: with an answer, by its time limit, or when the connection is closed. What a
 *    server sends is bounded before it is read, and is data of a stranger: checked against the
 *    protocol's schemas, never trusted.
 */
import * as Context from "effect/Context";
import * as Data from "effect/Data";
import type { OAuthProvider } from "./OAuthProvider.ts";

/** JSON objects of the protocol, as sent by the server; the adapter checks `name` or `uri`. */
export interface McpTool {
  readonly name: string;
  readonly title?: string;
  readonly description?: string;
  readonly inputSchema: Readonly<Record<string, unknown>>;
  readonly outputSchema?: Readonly<Record<string, unknown>>;
  readonly [field: string]: unknown;
}
export interface McpPrompt {
  readonly name: string;
  readonly description?: string;
  readonly [field: string]: unknown;
}
export interface McpResource {
  readonly uri: string;
  readonly name: string;
  readonly [field: string]: unknown;
}
export interface McpResourceTemplate {
  readonly uriTemplate: string;
  readonly name: string;
  readonly [field: string]: unknown;
}

export interface McpToolResult {
  readonly content: ReadonlyArray<{ readonly type: string; readonly [field: string]: unknown }>;
  readonly structuredContent?: unknown;
  readonly isError?: boolean;
  readonly [field: string]: unknown;
}
export interface McpResourceContents {
  readonly contents: ReadonlyArray<{
    readonly uri: string;
    readonly mimeType?: string;
    readonly text?: string;
    readonly blob?: string;
  }>;
}
export interface McpPromptResult {
  readonly description?: string;
  readonly messages: ReadonlyArray<{ readonly role: string; readonly content: unknown }>;
}

/** A question of a server to the user during a call. */
export interface ElicitRequest {
  readonly method: "elicitation/create";
  readonly params: {
    readonly mode?: string;
    readonly message: string;
    /** The form, as JSON Schema; absent for a question about a URL. */
    readonly requestedSchema?: {
      readonly properties?: Readonly<Record<string, unknown>>;
      readonly [field: string]: unknown;
    };
    readonly [field: string]: unknown;
  };
}
/** The user's answer to it. */
export interface ElicitResult {
  readonly action: "accept" | "decline" | "cancel";
  readonly content?: Readonly<Record<string, string | number | boolean | string[]>>;
}

export interface McpRequestOptions {
  /** Milliseconds; at most, and by default, what the adapter allows. */
  readonly timeout?: number;
  readonly signal?: AbortSignal;
  /** Receives the server's reports of progress. Each report restarts the timeout. */
  readonly onprogress?: (progress: {
    readonly progress: number;
    readonly total?: number | undefined;
  }) => void;
}

export type McpTransportType = "auto" | "streamable-http" | "sse";
export type McpListKind = "tools" | "prompts" | "resources" | "resourceTemplates";

/** A request without a result. `code` is the protocol's, where the server answered an error. */
export class McpRequestFailed extends Data.TaggedError("McpRequestFailed")<{
  readonly reason: "Timeout" | "Closed" | "SessionLost" | "Unauthorized" | "Refused" | "Answered";
  readonly message: string;
  readonly code?: number;
}> {}

export interface McpConnection {
  readonly transport: Exclude<McpTransportType, "auto">;
  readonly capabilities: Readonly<Record<string, unknown>>;
  readonly instructions: string | undefined;
  /**
   * Everything of that kind, all pages; empty when the server has said that it has none. Rejects
   * with `McpRequestFailed`, like all below.
   */
  readonly list: (kind: McpListKind, options: McpRequestOptions) => Promise<ReadonlyArray<unknown>>;
  readonly callTool: (
    params: { readonly name: string; readonly arguments?: Readonly<Record<string, unknown>> },
    options: McpRequestOptions,
  ) => Promise<McpToolResult>;
  readonly readResource: (
    params: { readonly uri: string },
    options: McpRequestOptions,
  ) => Promise<McpResourceContents>;
  readonly getPrompt: (
    params: { readonly name: string; readonly arguments?: Readonly<Record<string, string>> },
    options: McpRequestOptions,
  ) => Promise<McpPromptResult>;
  /** Ends the session at the server too, when it answers in time. Never rejects. */
  readonly close: () => Promise<void>;
  /** Closes it once its running requests have ended. It takes no further ones. */
  readonly retire: () => Promise<void>;
}

export interface McpTarget {
  readonly url: string;
  readonly transport: McpTransportType;
  /** Sent with every request to the server itself. */
  readonly headers: Readonly<Record<string, string>>;
  readonly skipIssuerMetadataValidation: boolean;
  readonly auth: OAuthProvider;
  /** Runs `renew` as the server's only renewal of tokens, or joins the one that runs. */
  readonly renewing: (renew: () => Promise<void>) => Promise<void>;
  /** Fires when the caller no longer waits. */
  readonly signal: AbortSignal;
}

export interface McpConnectOptions extends McpTarget {
  readonly client: { readonly name: string; readonly version: string };
  readonly capabilities: Readonly<Record<string, unknown>>;
  readonly onListChanged: () => void;
  /** The connection broke, not by `close`. */
  readonly onClosed: (message: string) => void;
  /** Asked only for modes that `capabilities` declares. */
  readonly elicit: (request: ElicitRequest, signal: AbortSignal) => Promise<ElicitResult>;
}

export type McpConnectResult =
  | { readonly _tag: "Connected"; readonly connection: McpConnection }
  /** `auth.authUrl` is where the user has to go, unless it could not be found out. */
  | { readonly _tag: "Unauthorized" }
  /** `message` is for strangers: it does not reveal whether a port is open. */
  | { readonly _tag: "Failed"; readonly message: string };

export type McpAuthResult =
  { readonly _tag: "Authorized" } | { readonly _tag: "Failed"; readonly message: string };

export interface McpClientsShape {
  /** Why a URL may not be connected to, as far as that can be said without resolving it. */
  readonly refusal: (url: string) => string | undefined;
  readonly connect: (options: McpConnectOptions) => Promise<McpConnectResult>;
  /** Exchanges the code of an authorization for tokens, which `auth` keeps. */
  readonly finishAuth: (target: McpTarget, callback: URLSearchParams) => Promise<McpAuthResult>;
}

export class McpClients extends Context.Service<McpClients, McpClientsShape>()(
  "agents/core/mcp/McpClients",
) {}

const missing = (): never => {
  throw new Error(
    "addMcpServer: this process has no MCP client. Call it in an agent that a host runs",
  );
};

/** For processes that connect to no servers. */
export const NO_MCP: McpClientsShape = { refusal: missing, connect: missing, finishAuth: missing };
