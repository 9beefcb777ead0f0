/**
 * Decides about a client's WebSocket upgrade. It is routed like any request (by the module's
 * `fetch`, else by `routeAgentRequest`); a stub's `fetch` then connects the socket to the agent
 * (`connectSocket`). The 101 is sent once a response with that socket is returned.
 */
import { textResponse } from "../../core/http/responseHead.ts";
import { ClosingSocket } from "../../core/http/ClosingSocket.ts";
import { cancelBody, type HttpRequest, type UpgradeDecision } from "../../core/http/HttpServer.ts";
import { abortOfSignal } from "../../core/lazyFetch/AbortSource.ts";
import type { GatewayServices } from "./GatewayServices.ts";
import { toRequest, urlOf, type GatewayAnswer } from "./requests.ts";
import { addressOf } from "../../core/http/clientAddress.ts";
import { routeUpgrade } from "./routeRequest.ts";

const TOO_MANY_SOCKETS = textResponse(
  429,
  "Too many sockets are open from this address (--sockets-per-address)\n",
);

/** Rejects only for a defect. `aborted` fires when the caller disconnects. */
export async function decideUpgrade(
  services: GatewayServices,
  http: HttpRequest,
  aborted: AbortSignal,
): Promise<UpgradeDecision> {
  const address = addressOf(http, services.config.trustedProxies);
  const leave = services.sockets.table.rates.enter(address);
  if (leave === undefined) return { _tag: "Refuse", response: TOO_MANY_SOCKETS };
  let decision: UpgradeDecision | undefined;
  try {
    decision = await decide(services, http, aborted, address);
  } finally {
    if (decision?._tag !== "Accept") leave();
  }
  return decision._tag === "Accept" ? leaving(decision, leave) : decision;
}

type Accept = Extract<UpgradeDecision, { _tag: "Accept" }>;

/** Calls `leave` once the socket has closed, or if it is not opened. */
function leaving(decision: Accept, leave: () => void): Accept {
  return {
    ...decision,
    open: (client) => {
      try {
        return new ClosingSocket(decision.open(client), leave);
      } catch (error) {
        leave();
        throw error;
      }
    },
    missed: () => {
      leave();
      decision.missed?.();
    },
  };
}

async function decide(
  services: GatewayServices,
  http: HttpRequest,
  aborted: AbortSignal,
  address: string,
): Promise<UpgradeDecision> {
  const { publicUrl } = services.config;
  let request: Request;
  try {
    request = toRequest(http, urlOf(http, publicUrl), new Uint8Array(0), abortOfSignal(aborted));
  } catch {
    return { _tag: "Refuse", response: textResponse(400, "Invalid request") };
  }
  const routed = await routeUpgrade(services, request);
  if (routed._tag === "Answer") return refuse(routed.answer);
  const { socket, protocol } = routed;
  return {
    _tag: "Accept",
    ...(protocol === undefined ? {} : { protocol }),
    open: (client) => socket.open(client, address),
    missed: () => socket.drop(),
  };
}

/** Cancels the rest of a streamed body: the port sends refusals whole, and they are short. */
function refuse({ rest, ...response }: GatewayAnswer): UpgradeDecision {
  if (rest !== undefined) void cancelBody(rest);
  return { _tag: "Refuse", response };
}
