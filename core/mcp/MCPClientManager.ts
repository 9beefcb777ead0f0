/**
 * `this.mcp`: the MCP servers of an agent, and what they offer (`protocol.md` §9). Servers are
 * stored in the agent's own database. Their connections live while the agent is in memory, and are
 * made again when it wakes. The agent's clients receive every change.
 *
 * Made by `core/mcp/AgentMcpServers` when an agent first asks for it, or has stored servers;
 * `McpServer` is one server, and `McpRequests` asks it; `oauthCallback` handles the return from an
 * authorization.
 */
import { ownName } from "../../schemas/AgentPath.ts";
import type { AgentWork } from "../turn/AgentWork.ts";
import type { AgentStorage } from "../database/AgentStorage.ts";
import { aiTool, aiToolName, type AiToolSet } from "./aiTools.ts";
import { checkRegistration } from "./checkRegistration.ts";
import { Elicitations, type ElicitationHandlers } from "./Elicitations.ts";
import { errorText } from "./errorText.ts";
import type {
  McpClientsShape,
  McpPromptResult,
  McpRequestOptions,
  McpResourceContents,
  McpTool,
  McpToolResult,
} from "./McpClients.ts";
import { DISCOVER_TIMEOUT_MS, McpServer } from "./McpServer.ts";
import type { McpServerHost } from "./McpServerHost.ts";
import type {
  McpConnectionResult,
  McpDiscoverResult,
  McpOAuthCallbackResult,
} from "./McpServerState.ts";
import { storedOptions, type McpServerOptions, type McpServerRow, type McpServerTable } from "./McpServerTable.ts"; // prettier-ignore
import { McpOffers, type McpServerFilter, type Of } from "./McpOffers.ts";
import { McpRequests, type Asks } from "./McpRequests.ts";
import { checkServerId } from "./normalizeServerId.ts";
import { answerCallback, handleCallback, serverOfCallback, type OAuthCallbackConfig } from "./oauthCallback.ts"; // prettier-ignore
import type { McpTransportOptions, RegisterServerOptions } from "./McpServerOptions.ts";
import { forgetOAuth, moveOAuth, type OAuthProvider } from "./OAuthProvider.ts";
import { settlesWithin } from "../time/settlesWithin.ts";

/** Each is a connection and a part of every frame to clients. */
const SERVERS_MAX = 64;

/** Calls `listener` at each event, until `dispose`. */
type McpEvent<A> = (listener: (event: A) => void) => { readonly dispose: () => void };
interface McpObservabilityEvent {
  readonly type: string;
  readonly payload: Readonly<Record<string, unknown>>;
}

interface ManagerParts {
  readonly runtime: AgentWork;
  readonly storage: AgentStorage;
  readonly clients: McpClientsShape;
  readonly table: McpServerTable;
  /** The agent's `createMcpOAuthProvider`. */
  readonly createProvider: (callbackUrl: string) => OAuthProvider;
  readonly onChanged: () => void;
}

/** `this.mcp`: the MCP servers of an agent, their connections, and what they offer. */
export class MCPClientManager extends McpOffers {
  private readonly pending = new Set<Promise<unknown>>();
  private readonly changes = new Set<(event: void) => void>();
  private readonly observers = new Set<(event: McpObservabilityEvent) => void>();
  private readonly host: McpServerHost;
  private readonly requests: McpRequests;
  private oauthConfig: OAuthCallbackConfig = {};
  private stopped = false;

  /** A server's state or offers have changed. */
  readonly onServerStateChanged: McpEvent<void> = (listener) => subscribe(this.changes, listener);
  /** Calls the listener with each event of the servers: connecting, listing, calling. */
  readonly onObservabilityEvent: McpEvent<McpObservabilityEvent> = (listener) =>
    subscribe(this.observers, listener);

  constructor(private readonly parts: ManagerParts) {
    super();
    this.requests = new McpRequests(parts.runtime, (server) => this.track(server.establish()));
    this.host = {
      runtime: parts.runtime,
      clients: parts.clients,
      table: parts.table,
      elicitations: new Elicitations(parts.runtime),
      isListed: (server) => this.servers.get(server.id) === server,
      charsBeside: (server) => this.charsBeside(server),
      providerOf: (row) => parts.createProvider(row.callback_url),
      changed: () => this.changed(),
      emit: (type, payload) => this.emit(type, payload),
    };
  }

  /**
   * Stores a server, and does not connect to it; one with the same id is replaced, and its tokens
   * are forgotten if its URL is another. Resolves to the id. Rejects with `TypeError` for an
   * invalid id, name or options, and with `Blocked URL: …`.
   */
  async registerServer(id: string, options: RegisterServerOptions): Promise<string> {
    checkServerId(id);
    checkRegistration(options);
    const { url, name, callbackUrl = "", authUrl = null, clientId = null } = options;
    const refused = this.parts.clients.refusal(url);
    if (refused !== undefined) throw new Error(`Blocked URL: ${url}: ${refused}`);
    const before = this.servers.get(id);
    if (before === undefined && this.servers.size >= SERVERS_MAX)
      throw new RangeError(`An agent has at most ${SERVERS_MAX} MCP servers; remove one first`);
    const row: McpServerRow = {
      id,
      name,
      server_url: new URL(url).href,
      callback_url: callbackUrl,
      client_id: clientId,
      auth_url: authUrl,
      server_options: storedOptions(options),
    };
    this.replace(before, row);
    if (before !== undefined && before.row.server_url !== row.server_url) await this.forgetOAuth(id); // prettier-ignore
    this.changed();
    return id;
  }

  /** Connects to a stored server, without listing its offers. Rejects for an unknown id. */
  async connectToServer(id: string): Promise<McpConnectionResult> {
    await this.parts.runtime.flush();
    return this.track(this.get(id).connect());
  }

  /** `connectToServer`, unless it is connected already. */
  async ensureConnected(id: string): Promise<McpConnectionResult> {
    await this.parts.runtime.flush();
    const server = this.get(id);
    return server.connection === undefined ? this.track(server.connect()) : { state: "connected" };
  }

  /** Asks a connected server for what it offers. Undefined for one that is not connected. */
  async discoverIfConnected(
    id: string,
    { timeoutMs = DISCOVER_TIMEOUT_MS }: { readonly timeoutMs?: number } = {},
  ): Promise<McpDiscoverResult | undefined> {
    const server = this.servers.get(id);
    if (server?.connection === undefined) return undefined;
    return this.track(this.parts.runtime.inBackground(() => server.discover(timeoutMs)));
  }

  /** Connects with retries in the background, then lists the offers. Resolves when that is over. */
  async establishConnection(id: string): Promise<void> {
    await this.begin(this.get(id));
  }

  /** Resolves when nothing connects or discovers any more, or after `timeout` ms. */
  async waitForConnections({ timeout }: { readonly timeout?: number } = {}): Promise<void> {
    let over = false;
    const all = (async () => {
      while (this.pending.size > 0 && !over) await Promise.allSettled(this.pending);
    })();
    if (timeout === undefined) return all;
    await settlesWithin(this.parts.runtime.time, timeout, all);
    over = true;
  }

  /**
   * @deprecated Use `registerServer` and `connectToServer`. Rejects when it fails; the server
   * stays.
   */
  async connect(
    url: string,
    options: { readonly transport?: McpTransportOptions; readonly client?: McpServerOptions["client"] } = {}, // prettier-ignore
  ): Promise<{ id: string; authUrl?: string; clientId?: string }> {
    const id = await this.registerServer(this.newId(), {
      ...options,
      url,
      name: new URL(url).host,
    });
    const result = await this.connectToServer(id);
    if (result.state === "failed") throw new Error(result.error);
    if (result.state === "connected") {
      await this.discoverIfConnected(id);
      return { id };
    }
    const { authUrl, clientId } = result;
    return { id, authUrl, ...(clientId === undefined ? {} : { clientId }) };
  }

  /** Closes the connection; the server stays stored, and is connected to at the next wake. */
  async closeConnection(id: string): Promise<void> {
    await this.get(id).close();
  }
  /** Closes the connections of all servers. They stay stored, and connect at the next wake. */
  async closeAllConnections(): Promise<void> {
    await Promise.all([...this.servers.values()].map((server) => server.close()));
  }

  /** Forgets a server, its tokens and everything else that OAuth has stored for it. */
  async removeServer(id: string): Promise<void> {
    const server = this.servers.get(id);
    if (server === undefined) return;
    this.servers.delete(id);
    this.parts.table.delete(id);
    await this.forgetOAuth(id);
    await server.close();
    this.changed();
  }

  /**
   * Changes a server's id, with everything that is stored under it. Its connection ends once the
   * calls that run on it are answered.
   */
  async renameServer(id: string, to: string): Promise<void> {
    checkServerId(to);
    const server = this.get(id);
    const { storage, runtime, table } = this.parts;
    await moveOAuth(storage, ownName(runtime.id), { from: id, to });
    const row = { ...server.row, id: to, auth_url: null };
    table.delete(id);
    this.servers.delete(id);
    this.replace(server, row);
    this.changed();
  }

  /**
   * Calls a tool, once everything written so far is stored. A server that has forgotten the session
   * is connected to anew, and asked again. A result with `isError` is a result. Rejects with
   * `McpRequestFailed`. The parameter of a result schema, which older apps pass, is ignored.
   */
  callTool(
    { serverId, name, arguments: input }: CallToolParams & Of,
    schemaOrOptions?: unknown,
    options: McpRequestOptions = (schemaOrOptions ?? {}) as McpRequestOptions,
  ): Promise<McpToolResult> {
    const params = { name, ...(input === undefined ? {} : { arguments: input }) };
    return this.ask(serverId, options, (to, how) => to.callTool(params, how));
  }
  /** Reads a resource of a server. Rejects with `McpRequestFailed` for what the server refuses. */
  readResource(
    { serverId, uri }: { readonly uri: string } & Of,
    options: McpRequestOptions = {},
  ): Promise<McpResourceContents> {
    return this.ask(serverId, options, (to, how) => to.readResource({ uri }, how));
  }
  /** A prompt of a server, filled in. Rejects with `McpRequestFailed` for what it refuses. */
  getPrompt(
    {
      serverId,
      name,
      arguments: input,
    }: { readonly name: string; readonly arguments?: Readonly<Record<string, string>> } & Of,
    options: McpRequestOptions = {},
  ): Promise<McpPromptResult> {
    const params = { name, ...(input === undefined ? {} : { arguments: input }) };
    return this.ask(serverId, options, (to, how) => to.getPrompt(params, how));
  }

  /** The tools for the `ai` package's `tools`, named `tool_{id without dashes}_{tool}`. */
  getAITools(filter?: McpServerFilter): AiToolSet {
    return Object.fromEntries(
      this.listTools(filter).map(({ serverId, ...tool }) => [
        aiToolName(serverId, tool.name),
        aiTool(tool as McpTool, (input, signal) =>
          this.callTool({ serverId, name: tool.name, arguments: input }, signal && { signal }),
        ),
      ]),
    );
  }

  /** Where a user goes after an authorization; default: the origin of the callback. */
  configureOAuthCallback(config: OAuthCallbackConfig): void {
    this.oauthConfig = config;
  }
  /** What `configureOAuthCallback` set; empty before. */
  getOAuthCallbackConfig(): OAuthCallbackConfig {
    return this.oauthConfig;
  }
  /** Sets who answers servers that ask the user. Call it in `onStart`, before its first await. */
  configureElicitationHandlers(handlers: ElicitationHandlers = {}): void {
    this.host.elicitations.handlers = handlers;
  }

  /** Whether the request returns from an authorization that one of the servers asked for. */
  isCallbackRequest(request: Request): boolean {
    return serverOfCallback(request, this.servers) !== undefined;
  }
  /**
   * Ends an authorization: exchanges the code of the callback, and connects. Resolves to an error
   * for an invalid state. Rejects for a request that is not a callback.
   */
  async handleCallbackRequest(request: Request): Promise<McpOAuthCallbackResult> {
    const server = serverOfCallback(request, this.servers);
    if (server === undefined)
      throw new Error("Not an OAuth callback of this agent's servers: check isCallbackRequest");
    const { runtime, clients } = this.parts;
    return handleCallback(request, server, { runtime, clients, begin: (one) => void this.begin(one) }); // prettier-ignore
  }
  /** The answer to a callback; undefined for any other request. */
  async intercept(request: Request): Promise<Response | undefined> {
    if (!this.isCallbackRequest(request)) return undefined;
    return answerCallback(request, await this.handleCallbackRequest(request), this.oauthConfig);
  }

  /** Reads the stored servers. Called before `onStart`. */
  restore(): void {
    for (const row of this.parts.table.all())
      this.servers.set(row.id, new McpServer(row, this.host));
  }
  /** Connects to the restored servers in the background, except those that wait for their user. */
  wake(): void {
    for (const server of this.servers.values())
      if (server.state === "not-connected") void this.begin(server);
  }
  /** The agent leaves memory: connections end, the rows stay. */
  stop(): void {
    this.stopped = true;
    for (const server of this.servers.values()) void server.close();
  }

  /** A fresh id for `registerServer`. */
  newId(): string {
    return this.parts.runtime.time.id();
  }

  private async ask<A>(id: string, options: McpRequestOptions, asks: Asks<A>): Promise<A> {
    return this.requests.send(this.get(id), options, asks);
  }

  private get(id: string): McpServer {
    const server = this.servers.get(id);
    if (server === undefined) throw new Error(`No MCP server "${id}" is registered`);
    return server;
  }

  /** Stores the row; its server takes the place of `before`. */
  private replace(before: McpServer | undefined, row: McpServerRow): void {
    this.parts.table.put(row);
    const server = new McpServer(row, this.host, before);
    this.servers.set(row.id, server);
    before?.yieldTo(server);
  }

  private forgetOAuth(id: string): Promise<void> {
    const { storage, runtime } = this.parts;
    return forgetOAuth(storage, ownName(runtime.id), id);
  }

  private begin(server: McpServer): Promise<McpConnectionResult> {
    return this.track(this.parts.runtime.inBackground(() => server.establishWithRetry()));
  }

  private track<A>(work: Promise<A>): Promise<A> {
    this.pending.add(work);
    return work.finally(() => this.pending.delete(work));
  }

  private changed(): void {
    if (this.stopped) return;
    this.parts.onChanged();
    this.tell(this.changes, undefined);
  }
  private emit(type: string, payload: Readonly<Record<string, unknown>>): void {
    this.parts.runtime.emit(type, payload);
    this.tell(this.observers, { type, payload });
  }
  private tell<A>(listeners: ReadonlySet<(event: A) => void>, event: A): void {
    for (const listener of listeners)
      try {
        listener(event);
      } catch (error) {
        this.parts.runtime.log.warn("a listener of MCP events threw", { error: errorText(error) });
      }
  }
}

interface CallToolParams {
  readonly name: string;
  readonly arguments?: Readonly<Record<string, unknown>>;
}

function subscribe<A>(listeners: Set<(event: A) => void>, listener: (event: A) => void) {
  listeners.add(listener);
  return { dispose: (): void => void listeners.delete(listener) };
}
