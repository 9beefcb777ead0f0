/**
 * Which requests are upgrades, and how one to a sub-agent is refused. The response to an upgrade
 * that is accepted has a socket (`core/socket/socketResponse`).
 */
import { closedSocket, type PendingSocket } from "./PendingSocket.ts";
import { CLOSE_FAILED } from "../http/closeFrame.ts";

/** 4404 stands for 404: codes from 4000 on are free for applications. */
const CLOSE_OF_STATUS = 4000;

const readonlyRequests = new WeakSet<Request>();

/** A connection that this request makes is readonly unless its agent decides otherwise. */
export const readonlyUpgrade = (request: Request): void => void readonlyRequests.add(request);

export const isReadonlyUpgrade = (request: unknown): boolean =>
  readonlyRequests.has(request as Request);

/**
 * The refusal of an upgrade to a sub-agent whose parent answered with `status`. The close code
 * contains a 4xx (`protocol.md` §2.5).
 */
export function refusedUpgrade(status: number): PendingSocket {
  const isClients = status >= 400 && status < 500;
  return closedSocket({
    code: isClients ? CLOSE_OF_STATUS + status : CLOSE_FAILED,
    reason: `Sub-agent connection rejected (${status})`,
  });
}

/**
 * Whether a request that a module or a stub receives is an upgrade. The server has decided before
 * whether the caller's request is a whole handshake (`core/http/requestHead`) and drops the header
 * of one that is not; a request made by hand needs no other header.
 */
export const isUpgrade = (request: Request): boolean =>
  request.method === "GET" && request.headers.get("upgrade")?.toLowerCase() === "websocket";
