/** Requests that are no declared webhook: the module's own `fetch`, else `routeAgentRequest`, else 404. */
import { routeAgentRequest } from "../../core/agent/routeAgentRequest.ts";
import { AgentUnreachable, CallLost } from "../../core/call/CallClient.ts";
import { InvalidAddress } from "../../schemas/Address.ts";
import type { GatewayServices } from "./GatewayServices.ts";

/** For a caller whose request may have been done, or may be what ends hosts: nothing here repeats it, and nor should they. */
export const HOST_LOST =
  "The agent's host was lost, or did not answer, while it had this request. It may have been done.";

/**
 * Never rejects: an error of the module's is a plain 500, a name that can't be one a 400, an agent out of reach a 503, one whose
 * host had the request and was lost a 502.
 */
export async function routeRequest(services: GatewayServices, request: Request): Promise<Response> {
  const { module, log } = services;
  const { env, fetch } = module();
  try {
    if (fetch === undefined)
      return (await routeAgentRequest(request, env)) ?? new Response("Not found", { status: 404 });
    const response: unknown = await fetch(request, env, {
      waitUntil: (promise) =>
        void promise.catch((error: unknown) =>
          log.error("a waitUntil promise rejected", { error: String(error) }),
        ),
      passThroughOnException: () => undefined,
    });
    if (response instanceof Response) return response;
    throw new TypeError(`the module's fetch returned ${String(response)}, not a Response`);
  } catch (error) {
    // The caller chose the name: told what is wrong with it.
    if (error instanceof InvalidAddress) return new Response(error.message, { status: 400 });
    // The caller has gone: nobody reads it.
    if (request.signal.aborted && error === request.signal.reason) return unavailable();
    if (error instanceof AgentUnreachable) {
      log.warn("an agent can't be reached", { url: request.url, error: error.message });
      if (error instanceof CallLost) return new Response(HOST_LOST, { status: 502 });
      return unavailable();
    }
    log.error("the module's fetch failed", {
      url: request.url,
      error: error instanceof Error ? (error.stack ?? error.message) : String(error),
    });
    return new Response("Internal Server Error", { status: 500 });
  }
}

const unavailable = (): Response =>
  new Response("Service Unavailable", { status: 503, headers: { "retry-after": "1" } });
