/**
 * The MCP methods of `Agent` (`protocol.md` §9): adds a server in one call, from its row to its
 * tools. The servers themselves are `MCPClientManager`'s.
 */
import { agentPath, ownName } from "../../schemas/AgentPath.ts";
import type { Connection } from "../connection/Connection.ts";
import type { AgentStorage } from "../database/AgentStorage.ts";
import { buildAgentPath, isRoutableRoot } from "../namespace/subAgentPaths.ts";
import type { AgentWork } from "../turn/AgentWork.ts";
import type { MCPClientManager } from "./MCPClientManager.ts";
import { normalizeServerId } from "./normalizeServerId.ts";
import { pendingAuthUrl } from "./oauthCallback.ts";
import { StoredOAuthProvider, type OAuthProvider } from "./OAuthProvider.ts";
import type { McpServer } from "./McpServer.ts";
import type { AddMcpServerOptions, AddMcpServerResult, RegisterServerOptions } from "./McpServerOptions.ts"; // prettier-ignore
import type { McpServerState } from "./McpServerState.ts";
import { storedOptions } from "./McpServerTable.ts";
import { defined } from "../collections/defined.ts";

/** The agent that uses MCP servers. */
export interface McpApiAgent extends Pick<AgentWork, "id" | "time"> {
  readonly mcp: MCPClientManager;
  readonly options: { readonly sendIdentityOnConnect?: boolean };
  /** The turn that the running code belongs to. */
  turn(): { readonly request?: Request | undefined; readonly connection?: Connection | undefined };
}

/** Its public methods are those of `Agent`, which documents them. */
export class McpApi {
  readonly #agent: McpApiAgent;

  constructor(agent: McpApiAgent) {
    this.#agent = agent;
  }

  async add(name: string, url: string, options: AddMcpServerOptions): Promise<AddMcpServerResult> {
    const { mcp } = this.#agent;
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
    const find = () => mcp.find((row) => row.id === id);
    const waiting = find();
    const asked = waiting && (await pendingAuthUrl(waiting));
    if (asked !== undefined) return { id, state: "authenticating", authUrl: asked };
    const known = find();
    if (known?.state === "ready") return { id, state: "ready" };
    const { client, transport, retry } = options;
    const given = {
      name,
      url,
      callbackUrl: this.#callbackUrl(options),
      ...(known?.row.client_id ? { clientId: known.row.client_id } : {}),
      ...defined({ client, transport, retry }),
    };
    // Replacing the server would restart an attempt that another call has begun.
    if (known === undefined || !isUnderWay(known, given)) await mcp.registerServer(id, given);
    let server = find()!;
    let added = await this.#establish(server);
    // Somebody has added it with other options: what becomes of those is the answer.
    while (server.latest !== server) added = await this.#establish((server = server.latest));
    if (added instanceof Error) throw added;
    return added;
  }

  async #establish({ id, row: { name } }: McpServer): Promise<AddMcpServerResult | Error> {
    const { mcp } = this.#agent;
    const result = await mcp.ensureConnected(id);
    if (result.state === "authenticating")
      return { id, state: "authenticating", authUrl: result.authUrl };
    if (result.state === "failed") return new Error(`The MCP server "${name}" can't be connected to: ${result.error}`); // prettier-ignore
    const found = await mcp.discoverIfConnected(id);
    if (found?.success) return { id, state: "ready" };
    const authUrl = mcp.find((row) => row.id === id)?.row.auth_url;
    if (found?.state === "authenticating" && authUrl)
      return { id, state: "authenticating", authUrl };
    return new Error(`The MCP server "${name}" could not list its tools: ${found?.error ?? "the connection is closed"}`); // prettier-ignore
  }

  /** The default store of an authorization's secrets. */
  storedProvider(storage: AgentStorage, callbackUrl: string): OAuthProvider {
    const { id, time } = this.#agent;
    return new StoredOAuthProvider(storage, { clientName: ownName(id), callbackUrl, time });
  }

  /** Empty where no redirect can reach the agent. */
  #callbackUrl({
    callbackHost,
    callbackPath,
    agentsPrefix = "agents",
  }: AddMcpServerOptions): string {
    const agent = this.#agent;
    const { request, connection } = agent.turn();
    const here = request?.url ?? connection?.uri;
    const host = callbackHost ?? (here === undefined ? undefined : originOf(here));
    if (host === undefined) return "";
    const { sendIdentityOnConnect = true } = agent.options;
    // Clients must not see the agent's name, and the default path contains it.
    if (!sendIdentityOnConnect && callbackPath === undefined && callbackHost !== undefined)
      throw new Error("addMcpServer needs a callbackPath if sendIdentityOnConnect is false");
    if (!sendIdentityOnConnect && callbackPath === undefined) return "";
    const steps = agentPath(agent.id);
    // For a name that no URL can contain (`acme/site`), the callback would reach another agent.
    if (callbackPath === undefined && !isRoutableRoot(steps[0]!.name)) return "";
    const path =
      callbackPath ?? buildAgentPath(steps, { prefix: agentsPrefix, leafPath: "callback" });
    return `${host.replace(/\/+$/, "")}/${path.replace(/^\/+/, "")}`;
  }
}

/** Whether the server, with these options, is being connected or is about to be. */
const isUnderWay = (
  { state, row }: McpServer,
  given: RegisterServerOptions & { readonly callbackUrl: string },
): boolean =>
  UNDER_WAY.has(state) &&
  row.callback_url === given.callbackUrl &&
  row.server_options === storedOptions(given);
const UNDER_WAY: ReadonlySet<McpServerState> = new Set([
  "not-connected",
  "connecting",
  "connected",
  "discovering",
]);

/** The HTTP origin of a URL, a socket's included: its page is on the agent's host. */
function originOf(url: string): string {
  const { protocol, host } = new URL(url);
  return `${protocol.replace(/^ws/, "http")}//${host}`;
}
