/** What `Agent.addMcpServer` takes and returns. */
import type { RegisterServerOptions } from "./MCPClientManager.ts";

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
