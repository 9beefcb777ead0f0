/**
 * The OAuth provider of one server. What it stores is under the server's id, where a server of that
 * id at another URL would find it. It therefore stores nothing for a server that has been removed,
 * renamed, or replaced at another URL, whose exchange or renewal may end later: its tokens would
 * outlive it, or be sent to the other URL.
 */
import type { ListedServer, McpServerHost } from "./McpServerHost.ts";
import type { OAuthProvider } from "./OAuthProvider.ts";
import { withMethods } from "./withMethods.ts";

/** What stores or deletes something under the server's id. A provider of a user may lack some. */
const WRITES = [
  "state",
  "saveClientInformation",
  "saveTokens",
  "saveCodeVerifier",
  "saveDiscoveryState",
  "invalidateCredentials",
] as const;

export function ownProvider(server: ListedServer, host: McpServerHost): OAuthProvider {
  const auth = host.providerOf(server.row);
  auth.serverId = server.id;
  auth.clientId = server.row.client_id ?? undefined;
  const owned =
    (write: (...args: never) => unknown) =>
    async (...args: never): Promise<unknown> => {
      if (isOwner(server, host)) return Reflect.apply(write, auth, args);
      throw new Error(`The MCP server "${server.id}" was removed or replaced meanwhile`);
    };
  const known = WRITES.filter((name) => typeof auth[name] === "function");
  return withMethods(auth, Object.fromEntries(known.map((name) => [name, owned(auth[name])])));
}

/** Whether the server, or one that has replaced it at its URL, is stored under its id. */
function isOwner({ id, row, latest }: ListedServer, host: McpServerHost): boolean {
  return host.isListed(latest) && latest.id === id && latest.row.server_url === row.server_url;
}
