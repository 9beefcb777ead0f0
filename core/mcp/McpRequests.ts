/**
 * Requests to the MCP servers of an agent (tools, resources, prompts), each sent once everything
 * that was written before it is stored. `MCPClientManager` makes them.
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
   * more. A server that has forgotten the session is connected to anew, and asked again. Rejects
   * with `McpRequestFailed`.
   */
  async send<A>(server: McpServer, given: McpRequestOptions, ask: Asks<A>): Promise<A> {
    const how = { ...given, signal: joinSignals(given.signal, this.runtime.abandoned) };
    await this.runtime.flush();
    try {
      return await ask(await this.live(server), how);
    } catch (error) {
      if (!(error instanceof McpRequestFailed)) throw error;
      if (error.reason === "Unauthorized" && server.connection !== undefined) await server.unauthorized(); // prettier-ignore
      // The server has not processed the request, so repeating it is safe.
      if (error.reason !== "SessionLost") throw error;
      await server.close();
      return ask(await this.live(server), how);
    }
  }

  private async live(server: McpServer): Promise<McpConnection> {
    if (server.connection === undefined && server.state !== "authenticating")
      await this.establish(server);
    if (server.connection !== undefined) return server.connection;
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
