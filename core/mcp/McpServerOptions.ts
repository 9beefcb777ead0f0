/** What `Agent.addMcpServer` and `this.mcp.registerServer` take and return. */
import type { RetryOptions } from "../retry/RetryOptions.ts";
import type { McpTransportType } from "./McpClients.ts";
import type { McpServerOptions } from "./McpServerTable.ts";

/** Options of `registerServer`. */
export interface RegisterServerOptions {
  readonly url: string;
  /** Its name for people. */
  readonly name: string;
  /** Where the user comes back to from an authorization. Default: nowhere. */
  readonly callbackUrl?: string;
  readonly client?: McpServerOptions["client"];
  readonly transport?: McpTransportOptions;
  readonly authUrl?: string;
  readonly clientId?: string;
  /** How a connection that failed is tried again. */
  readonly retry?: RetryOptions;
}

/** How a server is connected to. */
export interface McpTransportOptions {
  /** Default: streamable HTTP, then server-sent events. */
  readonly type?: McpTransportType;
  /** Sent with each request. */
  readonly headers?: HeadersInit;
  readonly skipIssuerMetadataValidation?: boolean;
}

/** Options of `addMcpServer`. `client`, `transport` and `retry` are those of `registerServer`. */
export interface AddMcpServerOptions extends Pick<
  RegisterServerOptions,
  "client" | "transport" | "retry"
> {
  /** A stable id, normalized by `normalizeServerId`. Default: generated. */
  readonly id?: string;
  /** Origin to which OAuth redirects users. Default: that of the current request or connection. */
  readonly callbackHost?: string;
  /**
   * Path of that redirect, which the app routes to the agent. Default:
   * `{agentsPrefix}/{class}/{name}/callback`.
   */
  readonly callbackPath?: string;
  /** First segments of the default callback path. Default `agents`. */
  readonly agentsPrefix?: string;
}

/** `authenticating`: the user has to open `authUrl` to authorize the connection. */
export type AddMcpServerResult =
  | { readonly id: string; readonly state: "ready" }
  | { readonly id: string; readonly state: "authenticating"; readonly authUrl: string };
