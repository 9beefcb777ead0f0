/**
 * What a server of an agent has of its manager: the agent, the wire, the table of rows, and who is
 * notified. `MCPClientManager` makes it once for all of its servers.
 */
import type { AgentWork } from "../turn/AgentWork.ts";
import type { Elicitations } from "./Elicitations.ts";
import type { McpClientsShape } from "./McpClients.ts";
import type { McpServerRow, McpServerTable } from "./McpServerTable.ts";
import type { OAuthProvider } from "./OAuthProvider.ts";

/** A server, as the manager and its provider know it. */
export interface ListedServer {
  readonly id: string;
  readonly row: McpServerRow;
  /** Itself, unless it was replaced. */
  readonly latest: ListedServer;
}

/** The manager of a server, as far as it is needed. */
export interface McpServerHost {
  readonly runtime: AgentWork;
  readonly clients: McpClientsShape;
  readonly table: McpServerTable;
  readonly elicitations: Elicitations;
  /** Whether it is the server of its id. */
  readonly isListed: (server: ListedServer) => boolean;
  /** Characters that the agent's other servers offer. */
  readonly charsBeside: (server: ListedServer) => number;
  readonly providerOf: (row: McpServerRow) => OAuthProvider;
  readonly changed: () => void;
  readonly emit: (type: string, payload: Readonly<Record<string, unknown>>) => void;
}
