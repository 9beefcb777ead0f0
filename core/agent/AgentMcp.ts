/**
 * The part of `Agent` that uses MCP servers (`protocol.md` §9). Between `AgentMail` and
 * `AgentFibers` in the chain of classes; the servers themselves are `this.mcp`.
 */
import { agentPath, ownName } from "../../schemas/AgentPath.ts";
import { buildAgentPath, isRoutableRoot } from "../namespace/subAgentPaths.ts";
import type { MCPClientManager, RegisterServerOptions } from "../mcp/MCPClientManager.ts";
import type { McpServersState } from "../mcp/McpOffers.ts";
import { normalizeServerId } from "../mcp/normalizeServerId.ts";
import { StoredOAuthProvider, type OAuthProvider } from "../mcp/OAuthProvider.ts";
import { runtimeOf } from "./AgentContext.ts";
import { AgentMail } from "./AgentMail.ts";
import { classOptions } from "./AgentStaticOptions.ts";

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

/** See `Agent`. */
export class AgentMcp extends AgentMail {
  /** The agent's MCP servers: their connections, tools, prompts and resources. */
  get mcp(): MCPClientManager {
    return runtimeOf(this.ctx).mcp;
  }

  /**
   * Adds an MCP server over HTTP, connects to it and lists its tools, prompts and resources. A
   * server of the same name and URL is reused. Resolves to `authenticating` when the user has to
   * open `authUrl` first. Rejects with `TypeError` for a bad URL, and with an `Error` when the id
   * is taken or the connection fails; the server then stays stored. `(name, url, callbackHost,
   * agentsPrefix, options)` is the older shape.
   */
  async addMcpServer(
    name: string,
    url: string,
    hostOrOptions: string | AddMcpServerOptions = {},
    agentsPrefix?: string,
    more: Pick<AddMcpServerOptions, "client" | "transport"> = {},
  ): Promise<AddMcpServerResult> {
    const options: AddMcpServerOptions =
      typeof hostOrOptions === "string"
        ? {
            ...more,
            callbackHost: hostOrOptions,
            ...(agentsPrefix === undefined ? {} : { agentsPrefix }),
          }
        : hostOrOptions;
    const { mcp } = this;
    if (!URL.canParse(url)) throw new TypeError(`Blocked URL: ${url}`);
    const { href } = new URL(url);
    const wanted = options.id === undefined ? undefined : normalizeServerId(options.id);
    const same = mcp.find((row) => row.name === name && row.server_url === href);
    const taken =
      wanted !== undefined && wanted !== same?.id && mcp.find(({ id }) => id === wanted);
    if (taken) throw new Error(`The MCP server id "${wanted}" is taken by "${taken.row.name}" at ${taken.row.server_url}`); // prettier-ignore
    // One id per server: a server that was added without a stable id receives it now.
    if (same !== undefined && wanted !== undefined && same.id !== wanted) await mcp.renameServer(same.id, wanted); // prettier-ignore
    const id = wanted ?? same?.id ?? mcp.newId();
    const known = mcp.find((row) => row.id === id);
    if (known?.state === "ready") return { id, state: "ready" };
    if (known?.state === "authenticating" && known.row.auth_url !== null)
      return { id, state: "authenticating", authUrl: known.row.auth_url };
    const { client, transport, retry } = options;
    await mcp.registerServer(id, {
      name,
      url,
      callbackUrl: this.#callbackUrl(options),
      ...(known?.row.client_id ? { clientId: known.row.client_id } : {}),
      ...(client === undefined ? {} : { client }),
      ...(transport === undefined ? {} : { transport }),
      ...(retry === undefined ? {} : { retry }),
    });
    const result = await mcp.connectToServer(id);
    if (result.state === "authenticating")
      return { id, state: "authenticating", authUrl: result.authUrl };
    if (result.state === "failed") throw new Error(`The MCP server "${name}" can't be connected to: ${result.error}`); // prettier-ignore
    const found = await mcp.discoverIfConnected(id);
    if (found?.success) return { id, state: "ready" };
    throw new Error(`The MCP server "${name}" does not say what it offers: ${found?.error ?? "the connection is gone"}`); // prettier-ignore
  }

  /** Disconnects a server and deletes it with its tokens. */
  async removeMcpServer(id: string): Promise<void> {
    await this.mcp.removeServer(id);
  }

  /**
   * The servers, their states, and their tools, prompts and resources: the content of the clients'
   * frame.
   */
  getMcpServers(): McpServersState {
    return this.mcp.getMcpServers();
  }

  /** Returns the store of an authorization's secrets. Override it to change how OAuth is done. */
  createMcpOAuthProvider(callbackUrl: string): OAuthProvider {
    const { id, time } = runtimeOf(this.ctx);
    return new StoredOAuthProvider(this.ctx.storage, {
      clientName: ownName(id),
      callbackUrl,
      time,
    });
  }

  /** Empty where no redirect can reach the agent. */
  #callbackUrl({
    callbackHost,
    callbackPath,
    agentsPrefix = "agents",
  }: AddMcpServerOptions): string {
    const runtime = runtimeOf(this.ctx);
    const here = runtime.currentUrl();
    const host = callbackHost ?? (here === undefined ? undefined : originOf(here));
    if (host === undefined) return "";
    const { sendIdentityOnConnect = true } = classOptions(this);
    // Clients must not see the agent's name, and the default path contains it.
    if (!sendIdentityOnConnect && callbackPath === undefined && callbackHost !== undefined)
      throw new Error("addMcpServer needs a callbackPath where sendIdentityOnConnect is false");
    if (!sendIdentityOnConnect && callbackPath === undefined) return "";
    const steps = agentPath(runtime.id);
    // For a name that no URL can contain (`acme/site`), the callback would reach another agent.
    if (callbackPath === undefined && !isRoutableRoot(steps[0]!.name)) return "";
    const path =
      callbackPath ?? buildAgentPath(steps, { prefix: agentsPrefix, leafPath: "callback" });
    return `${host.replace(/\/+$/, "")}/${path.replace(/^\/+/, "")}`;
  }
}

/** The HTTP origin of a URL, a socket's included: its page is on the agent's host. */
function originOf(url: string): string {
  const { protocol, host } = new URL(url);
  return `${protocol.replace(/^ws/, "http")}//${host}`;
}
