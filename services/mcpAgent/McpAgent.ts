/**
 * `McpAgent`: an MCP server that has sessions, as an agent. Each session is an agent of its own,
 * named after its transport and id (`streamable-http:<id>`, `sse:<id>`), with state, SQL and
 * schedules; `serve` makes the module's route to them. The server is of the SDK's version 1.
 *
 * 1. A streamable HTTP session lives in the agent's storage: a host that dies, or an agent that
 *    hibernates, ends none. `WorkerTransport` restores it.
 * 2. The agent stays in memory while a request of its client runs, even one that left.
 * 3. A session keeps the props that it began with, or none. Those of a later request change
 *    nothing, even when they wake the agent.
 * 4. Only a route begins a session or passes requests on to one: what the module checks in front of
 *    its route holds for all tools. A socket needs the name of a session that has begun.
 */
import type { McpServer } from "@modelcontextprotocol/sdk/server/mcp.js";
import type { Server } from "@modelcontextprotocol/sdk/server/index.js";
import type { EventStore } from "@modelcontextprotocol/sdk/server/streamableHttp.js";
import type { ElicitResult, RequestId } from "@modelcontextprotocol/sdk/types.js";
import { Agent } from "../../core/agent/Agent.ts";
import type { ConnectionContext } from "../../core/agent/AgentHooks.ts";
import type { Connection } from "../../core/connection/Connection.ts";
import { DurableObjectEventStore } from "./DurableObjectEventStore.ts";
import { noSession } from "./refusals.ts";
import { isByRoute, serveMcp, type McpRoute, type ServeOptions } from "./serveMcp.ts";
import { SseTransport } from "./SseTransport.ts";
import { WorkerTransport, type TransportState } from "./WorkerTransport.ts";

const SESSION_KEY = "cf_agents_mcp_session";
const PROPS_KEY = "cf_agents_mcp_props";

/** How the client of a session is connected. */
export type McpTransportKind = "streamable-http" | "sse";

/** Extend it, give it a `server`, register tools in `init`, and export its `serve`. */
export abstract class McpAgent<
  Env = Record<string, unknown>,
  State = unknown,
  Props extends Record<string, unknown> = Record<string, unknown>,
> extends Agent<Env, State, Props> {
  /** What `ctx.props` of the module's `fetch` held when the session began: `{}` if nothing. */
  props?: Props;
  /** The server of this session. */
  abstract server: McpServer | Server | Promise<McpServer | Server>;
  /** Registers tools, prompts and resources. Runs at each start of the agent. */
  abstract init(): Promise<void> | void;

  #streamable: WorkerTransport | undefined;
  #sse: SseTransport | undefined;

  /** The module's route to sessions: `export default MyMcp.serve("/mcp")`. `/` takes every path. */
  static serve(path: string, options: ServeOptions = {}): McpRoute {
    return serveMcp(path, this.name, options);
  }

  /** The same for the older transport of server-sent events. */
  static serveSSE(path: string, options: Omit<ServeOptions, "transport"> = {}): McpRoute {
    return serveMcp(path, this.name, { ...options, transport: "sse" });
  }

  /** @deprecated Use `serveSSE`. */
  static mount(path: string, options: Omit<ServeOptions, "transport"> = {}): McpRoute {
    return serveMcp(path, this.name, { ...options, transport: "sse" });
  }

  /** Connects the server. Override `init`, not this. */
  override async onStart(props?: Props): Promise<void> {
    const isNew = (await this.ctx.storage.get(SESSION_KEY)) === undefined;
    const known = await this.ctx.storage.get<Props>(PROPS_KEY);
    const own = isNew ? (known ?? props) : known; // rule 3
    this.props = own ?? this.props ?? ({} as Props);
    await this.init();
    if (this.getTransportType() === "streamable-http") {
      this.#streamable = this.#makeTransport();
      await (await this.server).connect(this.#streamable);
    }
  }

  /** Answers a request of the session's client, which `serve` has passed on. */
  override async onRequest(request: Request): Promise<Response> {
    if (!isByRoute(request)) return noSession(); // rule 4
    return this.getTransportType() === "sse" ? this.#onSse(request) : this.#onStreamable(request);
  }

  /** Closes sockets to a session that has not begun (1008). Override it to admit all. */
  override async onConnect(connection: Connection, _ctx: ConnectionContext): Promise<void> {
    const hasBegun =
      this.#sse !== undefined || (await this.ctx.storage.get(SESSION_KEY)) !== undefined;
    if (!hasBegun) connection.close(1008, "Session not found"); // rule 4
  }

  /** From the agent's name. */
  getTransportType(): McpTransportKind {
    return this.name.startsWith("sse:") ? "sse" : "streamable-http";
  }

  /** The id that the client knows the session by. */
  getSessionId(): string {
    return this.name.slice(this.name.indexOf(":") + 1);
  }

  /**
   * Where sent messages are kept for clients that come back with `Last-Event-ID`. Override it to
   * keep them elsewhere, or return undefined to keep none.
   */
  protected getEventStore(): EventStore | undefined {
    return new DurableObjectEventStore(this.ctx.storage);
  }

  /**
   * Asks the user of the client. Resolves to the answer; rejects when the client can't be asked.
   * `relatedRequestId` is the request whose stream carries the question: `extra.requestId` of the
   * tool.
   */
  async elicitInput(
    params: { readonly message: string; readonly requestedSchema: unknown },
    options: { readonly relatedRequestId?: RequestId } = {},
  ): Promise<ElicitResult> {
    const server = await this.server;
    const low = "server" in server ? server.server : server;
    return low.elicitInput(params as Parameters<Server["elicitInput"]>[0], options);
  }

  /** Changes `props`, and keeps them for the session's next start. */
  async updateProps(props?: Props): Promise<void> {
    if (props === undefined) return;
    this.props = props;
    await this.ctx.storage.put(PROPS_KEY, props);
  }

  async #onStreamable(request: Request): Promise<Response> {
    const transport = this.#streamable!;
    const isNew = (await this.ctx.storage.get(SESSION_KEY)) === undefined;
    if (isNew && request.headers.has("mcp-session-id")) return noSession();
    const response = await transport.handleRequest(request);
    this.ctx.waitUntil(transport.idle()); // rule 2
    if (isNew && response.ok) await this.updateProps(this.props);
    if (request.method !== "DELETE" || !response.ok) return response;
    await this.destroy();
    return new Response(null, { status: 204, headers: response.headers });
  }

  async #onSse(request: Request): Promise<Response> {
    if (request.method === "POST") return this.#sse?.receive(request) ?? noSession();
    if (this.#sse !== undefined) return new Response("Session is in use", { status: 409 });
    const { pathname } = new URL(request.url);
    const path = `${pathname.replace(/\/$/, "")}/message?sessionId=${this.getSessionId()}`;
    this.#sse = new SseTransport(this.getSessionId(), path);
    const response = this.#sse.open();
    await (await this.server).connect(this.#sse);
    return response;
  }

  #makeTransport(): WorkerTransport {
    const eventStore = this.getEventStore();
    return new WorkerTransport({
      sessionIdGenerator: () => this.getSessionId(),
      storage: {
        get: () => this.ctx.storage.get<TransportState>(SESSION_KEY),
        set: (state) => this.ctx.storage.put(SESSION_KEY, state),
      },
      ...(eventStore === undefined ? {} : { eventStore }),
    });
  }
}
