/**
 * The part of `Agent` that uses other systems' tools: MCP servers (`protocol.md` §9). Between
 * `AgentMail` and `AgentFibers` in the chain of classes; the servers themselves are `this.mcp`.
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

export interface AddMcpServerOptions extends Pick<
  RegisterServerOptions,
  "client" | "transport" | "retry"
> {
  /** A stable id (`normalizeServerId` of it); else one is made. */
  readonly id?: string;
  /** Origin that OAuth sends users back to; default: that of the request or connection at hand. */
  readonly callbackHost?: string;
  /**
   * Path there; the author routes it to the agent. Default:
   * `{agentsPrefix}/{class}/{name}/callback`.
   */
  readonly callbackPath?: string;
  /** Default `agents`. */
  readonly agentsPrefix?: string;
}

export type AddMcpServerResult =
  | { readonly id: string; readonly state: "ready" }
  | { readonly id: string; readonly state: "authenticating"; readonly authUrl: string };

export class AgentMcp extends AgentMail {
  /** The agent's MCP servers. */
  get mcp(): MCPClientManager {
    return runtimeOf(this.ctx).mcp;
  }

  /**
   * Adds an MCP server over HTTP, connects, and asks for what it offers; one of the same name and
   * URL is used again. `authenticating`: the user has to open `authUrl`. Rejects when that fails;
   * the server stays stored. `(name, url, callbackHost, agentsPrefix, options)` is the older shape.
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
    // One id for one server: what was added without a stable id gets it now.
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

  /** Forgets a server, with its tokens. */
  async removeMcpServer(id: string): Promise<void> {
    await this.mcp.removeServer(id);
  }

  /** The servers, their states, and everything that they offer: what clients are told. */
  getMcpServers(): McpServersState {
    return this.mcp.getMcpServers();
  }

  /** What keeps an authorization's secrets; override it to change how OAuth is done. */
  createMcpOAuthProvider(callbackUrl: string): OAuthProvider {
    const { id, time } = runtimeOf(this.ctx);
    return new StoredOAuthProvider(this.ctx.storage, {
      clientName: ownName(id),
      callbackUrl,
      time,
    });
  }

  /** Empty where nobody can be sent back. */
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
    // Its name is not to be seen by clients, and would be in the default path.
    if (!sendIdentityOnConnect && callbackPath === undefined && callbackHost !== undefined)
      throw new Error("addMcpServer needs a callbackPath where sendIdentityOnConnect is false");
    if (!sendIdentityOnConnect && callbackPath === undefined) return "";
    const steps = agentPath(runtime.id);
    // The callback of a name that no URL can have (`acme/site`) would be another agent's.
    if (callbackPath === undefined && !isRoutableRoot(steps[0]!.name)) return "";
    const path =
      callbackPath ?? buildAgentPath(steps, { prefix: agentsPrefix, leafPath: "callback" });
    return `${host.replace(/\/+$/, "")}/${path.replace(/^\/+/, "")}`;
  }
}

/** Of a socket's too: its page is where the agent is. */
function originOf(url: string): string {
  const { protocol, host } = new URL(url);
  return `${protocol.replace(/^ws/, "http")}//${host}`;
}
