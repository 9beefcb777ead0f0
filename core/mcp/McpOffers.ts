/**
 * What an agent's MCP servers offer, all of them together: the lists that agent code asks for, and
 * what clients receive. The part of `MCPClientManager` that only reads.
 */
import type { McpPrompt, McpResource, McpResourceTemplate, McpTool } from "./McpClients.ts";
import type { McpServer } from "./McpServer.ts";
import type { ListedServer } from "./McpServerHost.ts";
import type { McpServerState } from "./McpServerState.ts";
import type { McpServerRow } from "./McpServerTable.ts";

/** A filter of servers: those that meet all given criteria. */
export interface McpServerFilter {
  readonly serverId?: string | ReadonlyArray<string>;
  readonly serverName?: string | ReadonlyArray<string>;
  readonly state?: McpServerState | ReadonlyArray<McpServerState>;
}

/** The `mcp` of a `cf_agent_mcp_servers` frame. */
export interface McpServersState {
  readonly servers: Record<
    string,
    {
      readonly name: string;
      readonly server_url: string;
      readonly auth_url: string | null;
      readonly state: McpServerState;
      readonly error: string | null;
      readonly instructions: string | null;
      readonly capabilities: Readonly<Record<string, unknown>> | null;
    }
  >;
  readonly tools: Array<McpTool & Of>;
  readonly prompts: Array<McpPrompt & Of>;
  readonly resources: Array<McpResource & Of>;
}
export interface Of {
  readonly serverId: string;
}

export class McpOffers {
  protected readonly servers = new Map<string, McpServer>();

  /** The stored rows. */
  listServers(): McpServerRow[] {
    return [...this.servers.values()].map(({ row }) => row);
  }
  listTools(filter?: McpServerFilter): Array<McpTool & Of> {
    return this.offered(filter, ({ offer }) => offer.tools);
  }
  listPrompts(filter?: McpServerFilter): Array<McpPrompt & Of> {
    return this.offered(filter, ({ offer }) => offer.prompts);
  }
  listResources(filter?: McpServerFilter): Array<McpResource & Of> {
    return this.offered(filter, ({ offer }) => offer.resources);
  }
  listResourceTemplates(filter?: McpServerFilter): Array<McpResourceTemplate & Of> {
    return this.offered(filter, ({ offer }) => offer.resourceTemplates);
  }

  /** What clients receive. */
  getMcpServers(): McpServersState {
    const servers = [...this.servers.values()].map(({ id, row, state, error, offer }) => {
      const { name, server_url, auth_url } = row;
      const { instructions, capabilities } = offer;
      return [
        id,
        { name, server_url, auth_url, state, error, instructions, capabilities },
      ] as const;
    });
    return {
      servers: Object.fromEntries(servers), // An id can be "__proto__".
      tools: this.listTools(),
      prompts: this.listPrompts(),
      resources: this.listResources(),
    };
  }

  /** The first server whose row passes, or undefined. */
  find(test: (row: McpServerRow) => boolean): McpServer | undefined {
    for (const server of this.servers.values()) if (test(server.row)) return server;
    return undefined;
  }

  protected charsBeside(server: ListedServer): number {
    let chars = 0;
    for (const each of this.servers.values()) if (each !== server) chars += each.offer.chars;
    return chars;
  }

  private offered<A extends object>(
    filter: McpServerFilter | undefined,
    of: (server: McpServer) => ReadonlyArray<A>,
  ): Array<A & Of> {
    return [...this.servers.values()]
      .filter((server) => fits(server, filter))
      .flatMap((server) => of(server).map((one) => ({ ...one, serverId: server.id })));
  }
}

function fits({ row, state }: McpServer, filter: McpServerFilter = {}): boolean {
  const has = (wanted: string | ReadonlyArray<string> | undefined, value: string): boolean =>
    wanted === undefined ||
    (typeof wanted === "string" ? wanted === value : wanted.includes(value));
  return (
    has(filter.serverId, row.id) && has(filter.serverName, row.name) && has(filter.state, state)
  );
}
