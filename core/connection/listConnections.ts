/**
 * A page of an agent's open sockets as operators see them, for `agents connections` and the
 * console. Pure; fed by a host's `Slots`, without waking the agent.
 */
import type { SocketInfo } from "../../schemas/bus/GatewayMessage.ts";
import type { ConnectionsReply, ListedConnection } from "../../schemas/bus/SocketLists.ts";

/** The most of a reply, which stays below the broker's payload limit: a connection has few tags. */
const CONNECTIONS_MAX = 100;

export function listConnections(
  sockets: Iterable<SocketInfo>,
  { skip, limit }: { readonly skip: number; readonly limit: number },
): Pick<ConnectionsReply, "total" | "connections"> {
  const last = skip + Math.min(limit, CONNECTIONS_MAX);
  const connections: ListedConnection[] = [];
  let total = 0;
  for (const info of sockets) {
    if (total >= skip && total < last) connections.push(listed(info));
    total++;
  }
  return { total, connections };
}

function listed({ id, sid, gateway, since, attachment }: SocketInfo): ListedConnection {
  const { tags = [id], state = null, readonly = false, protocol = true, reads } = attachment ?? {};
  return {
    id,
    sid,
    gateway,
    ...(since === undefined ? {} : { since }),
    tags,
    stateBytes: state === null ? 0 : new TextEncoder().encode(JSON.stringify(state)).length,
    readonly,
    protocol,
    reads: reads?.length ?? 0,
  };
}
