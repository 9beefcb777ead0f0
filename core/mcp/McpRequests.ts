/**
 * Requests to the MCP servers of an agent (tools, resources, prompts), each sent once everything
 * that was written before it is stored. `MCPClientManager` makes them.
 *
 * 1. A request that a server refuses because it has forgotten the session is sent again, on a new
 *    connection. The server has not processed it.
 * 2. What becomes of one request ends no other: those on a connection whose session is lost are
 *    answered there, and a connection that has taken its place stays.
 */
import { joinSignals } from "../lazyFetch/AbortSource.ts";
import type { AgentWork } from "../turn/AgentWork.ts";
import { McpRequestFailed, type McpConnection, type McpRequestOptions } from "./McpClients.ts";
import type { McpServer } from "./McpServer.ts";

export type Asks<A> = (connection: McpConnection, options: McpRequestOptions) => Promise<A>;

export class McpRequests {
  /** `establish` connects a server, and does not reject. */
  constructor(
    private readonly runtime: Pick<AgentWork, "abandoned" | "flush">,
    private readonly establish: (server: McpServer) => Promise<unknown>,
  ) {}

  /**
   * Connects first where there is no connection. Aborts when the running turn has no caller any
   * more. Rejects with `McpRequestFailed`.
   */
  async send<A>(server: McpServer, given: McpRequestOptions, ask: Asks<A>): Promise<A> {
    const how = { ...given, signal: joinSignals(given.signal, this.runtime.abandoned) };
    await this.runtime.flush();
    const connection = await this.live(server);
    try {
      return await ask(connection, how);
    } catch (error) {
      if (!(error instanceof McpRequestFailed)) throw error;
      if (error.reason === "Unauthorized") server.latest.unauthorized(connection);
      if (error.reason !== "SessionLost") throw error;
      server.latest.retire(connection); // rule 2
      return ask(await this.live(server), how); // rule 1
    }
  }

  private async live(given: McpServer): Promise<McpConnection> {
    const server = given.latest;
    if (server.connection === undefined && server.state !== "authenticating")
      await this.establish(server);
    if (server.connection !== undefined) return server.connection;
    if (server.latest !== server) return this.live(server);
    const why =
      server.state === "authenticating"
        ? "it waits for its user's authorization"
        : (server.error ?? server.state);
    throw new McpRequestFailed({
      reason: server.state === "authenticating" ? "Unauthorized" : "Closed",
      message: `The MCP server "${server.row.name}" is not connected: ${why}`,
    });
  }
}
