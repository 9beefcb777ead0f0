/**
 * Routes upgrades and requests that no webhook route matches: to the module's `fetch` if it has
 * one, else by the default routing (`Access`), else 404. Checks the module's response before
 * anything is sent: a response that cannot be sent counts as an error of the module, and only an
 * upgrade request is answered with an upgrade. `Gateway` and `upgrade` call it.
 */
import type { PendingSocket } from "../../core/socket/PendingSocket.ts";
import { ObjectSocket } from "../../core/socket/ObjectSocket.ts";
import { socketOf, takePending } from "../../core/socket/socketResponse.ts";
import { AgentUnreachable, CallLost, CallTimedOut } from "../../core/call/AgentUnreachable.ts";
import { FAILED, textResponse } from "../../core/http/responseHead.ts";
import { tooMuchWritten } from "../../core/input/fixedAnswers.ts";
import { InvalidAddress } from "../../schemas/Address.ts";
import type { GatewayServices } from "./GatewayServices.ts";
import { limitedSocket } from "./limitedSocket.ts";
import { toHttpResponse, type GatewayAnswer } from "./requests.ts";
import { messageOf, stackOf } from "../../core/errors/thrown.ts";

/**
 * The answer to a request that may have run, or may have crashed its hosts. The gateway does not
 * repeat it, and callers should not either.
 */
const HOST_LOST =
  "The agent's host was lost while it had this request. It may have been carried out.";
const TIMED_OUT =
  "The agent did not answer in time. Its turn may still be running, and may carry out this request.";

/** The result of routing an upgrade. */
type Routed =
  /** A plain HTTP answer instead of the 101. */
  | { readonly _tag: "Answer"; readonly answer: GatewayAnswer }
  /** The 101, for this socket; `protocol`: the subprotocol that the module chose. */
  | { readonly _tag: "Socket"; readonly socket: PendingSocket; readonly protocol?: string };

/** Answers a request that is not an upgrade. Never rejects. */
export async function answerRequest(
  services: GatewayServices,
  request: Request,
): Promise<GatewayAnswer> {
  const response = await routed(services, request);
  const socket = socketOf(response);
  if (socket === undefined) return answerWith(services, request, response);
  ObjectSocket.internals.take(socket)?.drop();
  // The module turned the request into an upgrade, although the caller did not ask for a socket.
  services.log.warn(
    "the module's fetch answered a plain request with an upgrade",
    whereOf(request),
  );
  return UPGRADE_REQUIRED;
}

/** Routes an upgrade request. Never rejects. */
export async function routeUpgrade(services: GatewayServices, request: Request): Promise<Routed> {
  const response = await routed(services, request);
  const socket = socketOf(response);
  if (socket === undefined)
    return { _tag: "Answer", answer: await answerWith(services, request, response) };
  try {
    const { sockets, log } = services;
    const limit = (own: PendingSocket) => limitedSocket(own, sockets.table.rates, log);
    const taken = takePending(socket, sockets.holder().run, limit);
    const protocol = response.headers.get("sec-websocket-protocol");
    return { _tag: "Socket", socket: taken, ...(protocol === null ? {} : { protocol }) };
  } catch (error) {
    logFailure(services, request, error);
    return { _tag: "Answer", answer: FAILED };
  }
}

const UPGRADE_REQUIRED = textResponse(
  426,
  "Upgrade Required: connect with a WebSocket handshake (GET)\n",
);

/**
 * Never rejects. Responds 500 for an error of the module, 400 for an invalid agent name, 503 for an
 * agent that cannot be reached, 502 if the host was lost while it had the request, 504 if its
 * turn did not end within the deadline, and 429 for an agent that is past its journal rate.
 */
async function routed(services: GatewayServices, request: Request): Promise<Response> {
  const response = await responseOf(services, request);
  if (response.status === 400) services.access.noteUnknownClass(request);
  return response;
}

async function responseOf(services: GatewayServices, request: Request): Promise<Response> {
  const { module, access } = services;
  try {
    const { env, fetch } = module();
    if (fetch === undefined)
      return (
        (await access.routeAgentRequest(request)) ?? new Response("Not found", { status: 404 })
      );
    const response: unknown = await fetch(request, env, {
      waitUntil: services.unfinished.add,
      passThroughOnException: () => undefined,
      props: {},
      routeAgentRequest: (given) => access.routeAgentRequest(given),
    });
    if (response instanceof Response) return response;
    throw new TypeError(`the module's fetch returned ${typeof response}, not a Response`);
  } catch (error) {
    const response = failureOf(services, request, error);
    for (const header of pageHeaders(services, request)) response.headers.append(...header);
    return response;
  }
}

/** The response to a request whose routing threw `error`; logs what operators need to know. */
function failureOf(services: GatewayServices, request: Request, error: unknown): Response {
  const { log } = services;
  // The caller chose the name, so it is told what is wrong with it.
  if (error instanceof InvalidAddress) return new Response(error.message, { status: 400 });
  // The caller has disconnected, so nobody reads the answer.
  if (request.signal.aborted && error === request.signal.reason) return unavailable();
  if (error instanceof CallTimedOut) {
    log.warn("an agent did not answer in time", { ...whereOf(request), error: error.message });
    return new Response(TIMED_OUT, { status: 504 });
  }
  if (error instanceof AgentUnreachable) {
    log.warn("an agent can't be reached", { ...whereOf(request), error: error.message });
    if (error instanceof CallLost) return new Response(HOST_LOST, { status: 502 });
    return unavailable();
  }
  const refused = tooMuchWritten(error);
  if (refused !== undefined) {
    log.warn("an agent may not write now", { ...whereOf(request), error: messageOf(error) });
    const { status, body, headers } = refused;
    return new Response(body as string, { status, headers: headers as [string, string][] });
  }
  logFailure(services, request, error);
  return new Response("Internal Server Error", { status: 500 });
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
    return { ...FAILED, headers: [...FAILED.headers, ...pageHeaders(services, request)] };
  }
}

/** What lets the page that asks read an answer of the gateway itself. */
const pageHeaders = ({ access }: GatewayServices, { headers }: Request) =>
  access.refusalHeaders(headers.get("origin"), headers.get("host"));

const logFailure = ({ log }: GatewayServices, request: Request, error: unknown): void =>
  log.error("the module's fetch failed", { ...whereOf(request), error: stackOf(error) });

/** The request for the log, without its query, which may contain secrets. */
const whereOf = ({ method, url }: Request) => ({ method, url: url.replace(/\?.*$/s, "") });

const unavailable = (): Response =>
  new Response("Service Unavailable", { status: 503, headers: { "retry-after": "1" } });
