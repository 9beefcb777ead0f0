/**
 * The response to an upgrade that is accepted: its status is 101, which the platform's class
 * refuses to make, and it has the client's end of a socket as `webSocket`. A stub's `fetch` makes
 * one, and so does `new Response(null, { status: 101, webSocket })`, by which `services/platform`
 * makes the global `Response` call this. `ObjectActor` and the gateway read the socket.
 */
import { moduleSocket } from "./moduleSocket.ts";
import type { PendingSocket, SocketHolder } from "./PendingSocket.ts";
import { ObjectSocket } from "./ObjectSocket.ts";

const sockets = new WeakMap<Response, ObjectSocket>();

interface UpgradeInit {
  readonly status?: number;
  readonly webSocket?: unknown;
  readonly headers?: HeadersInit;
}

/** RFC 9110, 15.2.2. */
const SWITCHING_PROTOCOLS = 101;

/** `headers`: only `Sec-WebSocket-Protocol` reaches the client. */
export function socketResponse(webSocket: ObjectSocket, headers: HeadersInit = []): Response {
  const response = Object.defineProperties(new Response(null, { headers }), {
    status: { value: SWITCHING_PROTOCOLS },
    webSocket: { value: webSocket },
  });
  sockets.set(response, webSocket);
  return response;
}

/**
 * The response for these arguments of the constructor; undefined where they are of no upgrade. A
 * copy of a response that connects a socket, as middleware makes to change headers, is that
 * response. Throws `TypeError` for a socket that this code has accepted.
 */
export function upgradeOf(init: unknown): Response | undefined {
  if (typeof init !== "object" || init === null) return undefined;
  if (init instanceof Response && sockets.has(init)) return init;
  const { status, webSocket, headers } = init as UpgradeInit;
  if (status !== SWITCHING_PROTOCOLS || webSocket === undefined || webSocket === null)
    return undefined;
  return socketResponse(ObjectSocket.returned(webSocket), headers);
}

/** The socket of a response; undefined for any other. */
export const socketOf = (response: unknown): ObjectSocket | undefined =>
  typeof response === "object" && response !== null ? sockets.get(response as Response) : undefined;

/**
 * Takes the socket that a module's `fetch` returned: that of a stub's response, or the client's end
 * of a pair whose other end the module has accepted. `run`: as of `SocketHolder`. `limit`: applied
 * to a pair's socket; that of a stub has the limits of its agent's. Throws `TypeError` where the
 * other end was not accepted.
 */
export const takePending = (
  socket: ObjectSocket,
  run: SocketHolder["run"],
  limit: (pending: PendingSocket) => PendingSocket,
): PendingSocket =>
  ObjectSocket.internals.take(socket) ?? limit(moduleSocket(ObjectSocket.accepted(socket), run));
