/**
 * The sockets of Durable Objects when their object's memory is lost. What an object was doing for
 * a socket is then lost with it, and only the socket's end makes the client ask again, as it does
 * on the reference's platform: a chat of the reference would wait for the rest of its answer.
 *
 * 1. An object's sockets end when it leaves memory out of order: when it aborts, an event of it is
 *    given up, or an append is not stored. The object is not notified.
 * 2. When its host is lost, only the sockets of an object that worked (`LongEvents`) end.
 *
 * Sockets of agents stay open in any case: lost calls are refused (`core/runtime/lostCalls`).
 */
import type { SocketInfo } from "../../../schemas/bus/GatewayMessage.ts";
import { isObjectActor, ObjectActor } from "../../../core/durableObject/ObjectActor.ts";
import type { ActiveAgent } from "../../../core/runtime/ActiveAgent.ts";
import { closeAll } from "../../../core/runtime/AgentSockets.ts";
import type { AgentOutlet } from "../../../core/turn/AgentOutlet.ts";

/** "Service restart" (RFC 6455's registry): clients connect again. */
const LOST = { code: 1012, reason: "The object was restarted" };

type Outlet = Pick<AgentOutlet, "toGateway">;

/** Ends the sockets of an object that is discarded. False: it is no object. */
export function endSockets({ agent, sockets }: ActiveAgent, outlet: Outlet): boolean {
  if (!(agent instanceof ObjectActor)) return false;
  closeAll(sockets.infos(), outlet, LOST);
  return true;
}

/**
 * Ends a socket that a census found, of a class that worked. False: it stays open, for the next
 * owner.
 */
export function endLost(agentClass: unknown, socket: SocketInfo, outlet: Outlet): boolean {
  if (!isObjectActor(agentClass)) return false;
  closeAll([socket], outlet, LOST);
  return true;
}
