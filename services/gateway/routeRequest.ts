/**
 * Requests that are no declared webhook, and upgrades: the module's own `fetch`, else the default routing (`Access`), else 404.
 * What the module returns is checked here, before it is anybody's to send: an answer that can't be one is the module's error,
 * as one that it throws, and an upgrade is only for who asked for one. Fed by `Gateway` and `upgrade`.
 */
import {
  isUpgradeResponse,
  upgradeRefusal,
  upgradeTarget,
  type UpgradeRefusal,
  type UpgradeTarget,
} from "../../core/namespace/upgradeResponse.ts";
import { AgentUnreachable, CallLost } from "../../core/call/CallClient.ts";
import { FAILED } from "../../core/http/responseHead.ts";
import { InvalidAddress } from "../../schemas/Address.ts";
import type { GatewayServices } from "./GatewayServices.ts";
import { plain, toHttpResponse, type GatewayAnswer } from "./requests.ts";

/** For a caller whose request may have been done, or may be what ends hosts: nothing here repeats it, and nor should they. */
export const HOST_LOST =
  "The agent's host was lost, or did not answer, while it had this request. It may have been done.";

export type Routed =
  | { readonly _tag: "Answer"; readonly answer: GatewayAnswer }
  | { readonly _tag: "Socket"; readonly target: UpgradeTarget }
  | { readonly _tag: "Closed"; readonly refusal: UpgradeRefusal };

/** The answer to a request that is no upgrade. Never rejects. */
export async function answerRequest(
  services: GatewayServices,
  request: Request,
): Promise<GatewayAnswer> {
  const response = await routed(services, request);
  if (!isUpgradeResponse(response)) return answerWith(services, request, response);
  // The module changed the request on its way: the caller's own asks for no socket.
  services.log.warn("the module's fetch answered with an upgrade what is none", whereOf(request));
  return UPGRADE_REQUIRED;
}

/** What becomes of an upgrade. Never rejects. */
export async function routeUpgrade(services: GatewayServices, request: Request): Promise<Routed> {
  const response = await routed(services, request);
  const refusal = upgradeRefusal(response);
  if (refusal !== undefined) return { _tag: "Closed", refusal };
  const target = upgradeTarget(response);
  if (target !== undefined) return { _tag: "Socket", target };
  return { _tag: "Answer", answer: await answerWith(services, request, response) };
}

const UPGRADE_REQUIRED = plain(426, "Upgrade Required: connect with a WebSocket handshake (GET)\n");

/**
 * An error of the module's is a plain 500, a name that can't be one a 400, an agent out of reach a 503, one whose host had the
 * request and was lost a 502.
 */
async function routed(services: GatewayServices, request: Request): Promise<Response> {
  const { module, access, log } = services;
  try {
    const { env, fetch } = module();
    if (fetch === undefined)
      return (
        (await access.routeAgentRequest(request)) ?? new Response("Not found", { status: 404 })
      );
    const response: unknown = await fetch(request, env, {
      waitUntil: (promise) =>
        void Promise.resolve(promise).catch((error: unknown) =>
          log.error("a waitUntil promise rejected", { error: String(error) }),
        ),
      passThroughOnException: () => undefined,
      routeAgentRequest: (given) => access.routeAgentRequest(given),
    });
    if (response instanceof Response) return response;
    throw new TypeError(`the module's fetch returned ${typeof response}, not a Response`);
  } catch (error) {
    // The caller chose the name: told what is wrong with it.
    if (error instanceof InvalidAddress) return new Response(error.message, { status: 400 });
    // The caller has gone: nobody reads it.
    if (request.signal.aborted && error === request.signal.reason) return unavailable();
    if (error instanceof AgentUnreachable) {
      log.warn("an agent can't be reached", { ...whereOf(request), error: error.message });
      if (error instanceof CallLost) return new Response(HOST_LOST, { status: 502 });
      return unavailable();
    }
    logFailure(services, request, error);
    return new Response("Internal Server Error", { status: 500 });
  }
}

async function answerWith(
  services: GatewayServices,
  request: Request,
  response: Response,
): Promise<GatewayAnswer> {
  try {
    return await toHttpResponse(response);
  } catch (error) {
    logFailure(services, request, error);
    return FAILED;
  }
}

const logFailure = ({ log }: GatewayServices, request: Request, error: unknown): void =>
  log.error("the module's fetch failed", {
    ...whereOf(request),
    error: error instanceof Error ? (error.stack ?? error.message) : String(error),
  });

/** Without the query, which may hold secrets. */
const whereOf = ({ method, url }: Request) => ({ method, url: url.replace(/\?.*$/s, "") });

const unavailable = (): Response =>
  new Response("Service Unavailable", { status: 503, headers: { "retry-after": "1" } });
