/** Requests that are no declared webhook: the module's own `fetch`, else the default routing (`Access`), else 404. */
import { AgentUnreachable } from "../../core/call/CallClient.ts";
import { REDACTION } from "../../core/redaction/Redaction.ts";
import { InvalidAddress } from "../../schemas/Address.ts";
import type { GatewayServices } from "./GatewayServices.ts";

/** Never rejects: an error of the module's is a plain 500, a name that can't be one a 400, an agent out of reach a 503. */
export async function routeRequest(services: GatewayServices, request: Request): Promise<Response> {
  const { module, access, log } = services;
  const { env, fetch } = module();
  try {
    if (fetch === undefined)
      return (
        (await access.routeAgentRequest(request)) ?? new Response("Not found", { status: 404 })
      );
    const response: unknown = await fetch(request, env, {
      waitUntil: (promise) =>
        void promise.catch((error: unknown) =>
          log.error("a waitUntil promise rejected", { error: String(error) }),
        ),
      passThroughOnException: () => undefined,
      routeAgentRequest: (routed) => access.routeAgentRequest(routed),
    });
    if (response instanceof Response) return response;
    throw new TypeError(`the module's fetch returned ${String(response)}, not a Response`);
  } catch (error) {
    // The caller chose the name: told what is wrong with it.
    if (error instanceof InvalidAddress) return new Response(error.message, { status: 400 });
    if (error instanceof AgentUnreachable) {
      log.warn("an agent can't be reached", {
        url: REDACTION.url(request.url),
        error: error.message,
      });
      return new Response("Service Unavailable", { status: 503, headers: { "retry-after": "1" } });
    }
    log.error("the module's fetch failed", {
      url: REDACTION.url(request.url),
      error: error instanceof Error ? (error.stack ?? error.message) : String(error),
    });
    return new Response("Internal Server Error", { status: 500 });
  }
}
