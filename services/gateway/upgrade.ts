/**
 * Decides a WebSocket upgrade. The upgrade is routed like any request (by the module's `fetch`,
 * else by `routeAgentRequest`), and the agent runs its connect sequence. The 101 is sent only then
 * (`protocol.md` §2.3), so no message of the client arrives before `onConnect` has finished.
 */
import type { UpgradeRefusal } from "../../core/namespace/upgradeResponse.ts";
import { cancelBody, type HttpRequest, type UpgradeDecision } from "../../core/http/HttpServer.ts";
import { abortOfSignal } from "../../core/lazyFetch/AbortSource.ts";
import { CLOSE_VANISHED } from "../../core/http/closeFrame.ts";
import { AgentUnreachable, CallLost } from "../../core/call/CallClient.ts";
import type { SocketInfo } from "../../schemas/Call.ts";
import { addressKey } from "../../schemas/Address.ts";
import type { GatewayServices } from "./GatewayServices.ts";
import { headerPairs, plain, toRequest, urlOf, type GatewayAnswer } from "./requests.ts";
import { addressOf, tooMany } from "./RateLimit.ts";
import { HOST_LOST, routeUpgrade } from "./routeRequest.ts";
import type { SocketTable } from "./SocketTable.ts";

/** Rejects only for a defect. `aborted` fires when the caller has gone. */
export async function decideUpgrade(
  services: GatewayServices,
  sockets: SocketTable,
  http: HttpRequest,
  aborted: AbortSignal,
): Promise<UpgradeDecision> {
  const { config, calls, log, time } = services;
  const url = urlOf(http, config.publicUrl);
  let request: Request;
  try {
    request = toRequest(http, url, new Uint8Array(0), abortOfSignal(aborted));
  } catch {
    return { _tag: "Refuse", response: plain(400, "Invalid request") };
  }
  const routed = await routeUpgrade(services, request);
  if (routed._tag === "Closed") return acceptedAndClosed(routed.refusal);
  if (routed._tag === "Answer") return refuse(routed.answer);
  const { target } = routed;
  const wait = services.entityLimit?.take(addressKey(target.id)) ?? 0;
  if (wait > 0) return { _tag: "Refuse", response: tooMany(wait) };
  const pk = new URL(target.url).searchParams.get("_pk");
  const info: SocketInfo = {
    gateway: config.gatewayId,
    sid: time.id(),
    id: pk === null || pk === "" ? time.id() : pk,
    url: target.url,
    headers: target.headers ?? headerPairs(http),
  };
  const address = addressOf(http, config.trustedProxies);
  // Only the connect sequence reads the headers: a host that takes over the agent does not need
  // them.
  const entry = sockets.add(target.id, { ...info, headers: [] });
  const props = target.props === undefined ? {} : { props: target.props };
  const readonly = target.readonly === undefined ? {} : { readonly: target.readonly };
  try {
    const { reply, body } = await calls.call(
      target.id,
      { kind: "connect", socket: info, ...props, ...readonly },
      {
        deadlineMs: config.requestDeadlineMs,
        repeatable: true,
        beforeRepeat: () => aborted.throwIfAborted(),
      },
    );
    if (reply.kind === "connected") {
      entry.attachment = reply.attachment;
      const { close } = reply;
      return {
        _tag: "Accept",
        missed: () => {
          if (close === undefined) sockets.onPeerClosed(entry, VANISHED);
          else sockets.remove(entry);
        },
        open: (socket) => {
          const handlers = sockets.open(entry, socket, address);
          if (close !== undefined) {
            // The agent never had this socket, so it receives nothing more about it.
            sockets.remove(entry);
            socket.close(close.code, close.reason);
            return { onMessage: () => undefined, onClose: () => undefined };
          }
          return handlers;
        },
      };
    }
    sockets.remove(entry);
    if (reply.kind === "response") {
      const { status, headers } = reply;
      return { _tag: "Refuse", response: { status, headers, body } };
    }
    return setupFailed();
  } catch (error) {
    sockets.remove(entry);
    if (aborted.aborted && error === aborted.reason) return CALLER_GONE;
    if (!(error instanceof AgentUnreachable)) throw error;
    log.warn("a socket's agent can't be reached", { ...target.id, error: error.message });
    if (error instanceof CallLost) return { _tag: "Refuse", response: plain(502, HOST_LOST) };
    return { _tag: "Refuse", response: plain(503, "Service Unavailable", [["retry-after", "1"]]) };
  }
}

const VANISHED = { code: CLOSE_VANISHED, reason: "", wasClean: false };

/** Cancels the rest of a streamed body: the port sends refusals whole, and they are short. */
function refuse({ rest, ...response }: GatewayAnswer): UpgradeDecision {
  if (rest !== undefined) void cancelBody(rest);
  return { _tag: "Refuse", response };
}

/** A placeholder: the caller has gone. */
const CALLER_GONE: UpgradeDecision = {
  _tag: "Refuse",
  response: plain(503, "Service Unavailable"),
};

/** The agent could not start: the client receives an error frame and 1011, as in the reference. */
const setupFailed = (): UpgradeDecision =>
  acceptedAndClosed(
    { code: 1011, reason: "Uncaught exception during session setup" },
    JSON.stringify({ error: "Internal Server Error" }),
  );

const acceptedAndClosed = ({ code, reason }: UpgradeRefusal, frame?: string): UpgradeDecision => ({
  _tag: "Accept",
  open: (socket) => {
    if (frame !== undefined) socket.send(frame);
    socket.close(code, reason);
    return { onMessage: () => undefined, onClose: () => undefined };
  },
});
