/**
 * The response to an upgrade that a Durable Object accepts: `new Response(null, { status: 101,
 * webSocket: client })`, which the platform's class refuses to make. `services/platform` makes the
 * global `Response` call this; `ObjectActor` reads the socket.
 */
import { isUpgradeResponse, switchingProtocols } from "../namespace/upgradeResponse.ts";
import type { ObjectSocket } from "./ObjectSocket.ts";

const sockets = new WeakMap<Response, unknown>();

interface UpgradeInit {
  readonly status?: number;
  readonly webSocket?: unknown;
  readonly headers?: HeadersInit;
}

/** RFC 9110, 15.2.2. */
const SWITCHING_PROTOCOLS = 101;

/**
 * The response for these arguments of the constructor; undefined where they are of no upgrade. A
 * copy of a response that connects a socket, as middleware makes to change headers, is that
 * response.
 */
export function upgradeOf(init: unknown): Response | undefined {
  if (typeof init !== "object" || init === null) return undefined;
  if (init instanceof Response && (isUpgradeResponse(init) || sockets.has(init))) return init;
  const { status, webSocket } = init as UpgradeInit;
  if (status !== SWITCHING_PROTOCOLS || webSocket === undefined || webSocket === null)
    return undefined;
  const response = Object.defineProperty(switchingProtocols(), "webSocket", { value: webSocket });
  sockets.set(response, webSocket);
  return response;
}

/** The socket of a response; undefined for any other. */
export const socketOf = (response: unknown): ObjectSocket | undefined =>
  (typeof response === "object" && response !== null
    ? sockets.get(response as Response)
    : undefined) as ObjectSocket | undefined;
