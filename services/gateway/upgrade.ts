/**
 * Decides about a client's WebSocket upgrade. It is routed like any request (by the module's
 * `fetch`, else by `routeAgentRequest`); a stub's `fetch` then connects the socket to the agent
 * (`connectSocket`). The 101 is sent once a response with that socket is returned.
 */
import { textResponse } from "../../core/http/responseHead.ts";
import { cancelBody, type HttpRequest, type UpgradeDecision } from "../../core/http/HttpServer.ts";
import { abortOfSignal } from "../../core/lazyFetch/AbortSource.ts";
import type { GatewayServices } from "./GatewayServices.ts";
import { toRequest, urlOf, type GatewayAnswer } from "./requests.ts";
import { addressOf } from "../../core/http/clientAddress.ts";
import { routeUpgrade } from "./routeRequest.ts";

/** Rejects only for a defect. `aborted` fires when the caller disconnects. */
export async function decideUpgrade(
  services: GatewayServices,
  http: HttpRequest,
  aborted: AbortSignal,
): Promise<UpgradeDecision> {
  const { publicUrl, trustedProxies } = services.config;
  let request: Request;
  try {
    request = toRequest(http, urlOf(http, publicUrl), new Uint8Array(0), abortOfSignal(aborted));
  } catch {
    return { _tag: "Refuse", response: textResponse(400, "Invalid request") };
  }
  const routed = await routeUpgrade(services, request);
  if (routed._tag === "Answer") return refuse(routed.answer);
  const { socket, protocol } = routed;
  const address = addressOf(http, trustedProxies);
  return {
    _tag: "Accept",
    ...(protocol === undefined ? {} : { protocol }),
    open: (client) => socket.open(client, address),
    missed: () => socket.drop(),
  };
}

/**
 * Cancels the rest of a streamed body, because the port sends refusals as a whole, and they are
 * short.
 */
function refuse({ rest, ...response }: GatewayAnswer): UpgradeDecision {
  if (rest !== undefined) void cancelBody(rest);
  return { _tag: "Refuse", response };
}
