/**
 * Creates the manager of an agent's MCP servers, for an agent that has stored servers or asks for
 * it. Stored servers are restored before `onStart`, connected once it has begun, and closed when
 * the agent leaves memory.
 *
 * Connections do not keep an agent in memory: they end when it hibernates, and are made again when
 * it wakes. A running call is part of a turn, which does keep it in memory.
 */
import { mcpServersFrame } from "../connection/protocol.ts";
import type { AgentStorage } from "../database/AgentStorage.ts";
import { tableExists } from "../database/tableExists.ts";
import { MCPClientManager } from "./MCPClientManager.ts";
import type { McpClientsShape } from "./McpClients.ts";
import type { OAuthProvider } from "./OAuthProvider.ts";
import { MCP_TABLE, McpServerTable } from "./McpServerTable.ts";
import type { AgentTurns } from "../turn/AgentTurns.ts";
import type { AgentWork } from "../turn/AgentWork.ts";

/** The agent that uses the servers. */
interface McpAgent extends AgentWork, Pick<AgentTurns, "database" | "discarded"> {
  readonly ctx: { readonly storage: AgentStorage };
  /** The user's object. */
  readonly agent: { createMcpOAuthProvider(callbackUrl: string): OAuthProvider };
  readonly sockets: {
    readonly size: number;
    /** Sends a frame to every socket that receives protocol frames. */
    castProtocol(frame: string): void;
  };
}

export class AgentMcpServers {
  private made: MCPClientManager | undefined;
  /** The latest frame to clients, as text: a long list is not encoded for each that connects. */
  private text: string | undefined;

  constructor(
    private readonly agent: McpAgent,
    private readonly clients: McpClientsShape,
  ) {}

  get manager(): MCPClientManager {
    const { agent, clients } = this;
    return (this.made ??= new MCPClientManager({
      runtime: agent,
      storage: agent.ctx.storage,
      clients,
      table: new McpServerTable((sql, params) => agent.query(sql, params)),
      createProvider: (callbackUrl) => agent.agent.createMcpOAuthProvider(callbackUrl),
      onChanged: () => {
        this.text = undefined;
        // Restored servers can't be announced before the agent exists.
        if (!agent.discarded && agent.sockets.size > 0) agent.sockets.castProtocol(this.frame);
      },
    }));
  }

  /** The frame that clients get on connect. */
  get frame(): string {
    return (this.text ??= mcpServersFrame(this.made?.getMcpServers()));
  }

  /** Restores stored servers, if there are any. */
  restore(): void {
    const { database } = this.agent;
    if (!database.mayHaveTable(MCP_TABLE)) return;
    if (tableExists(database, MCP_TABLE)) this.manager.restore();
  }

  /** `onStart` has begun: what it configured before its first await counts. */
  wake(): void {
    const { made, agent } = this;
    if (made === undefined) return;
    if (made.listServers().length > 0 && agent.sockets.size > 0) agent.sockets.castProtocol(this.frame); // prettier-ignore
    made.wake();
  }

  /** The answer to a user who returns from an authorization; undefined for any other request. */
  async intercept(request: Request): Promise<Response | undefined> {
    return this.made?.intercept(request);
  }

  stop(): void {
    this.made?.stop();
  }
}
