/**
 * Connects a socket to an agent: the agent runs its connect sequence, and accepts the socket or
 * answers something else. The socket is then pending, and its frames wait, until its other end is
 * connected: that of a client, once the 101 is sent (`upgrade`), or of code in this process that
 * called a stub's `fetch` (`StubLink`).
 *
 * 1. No message reaches the agent before its connect sequence has ended (`protocol.md` §2.3).
 * 2. A socket that is still pending after `PENDING_MS_MAX` is closed, since the code has dropped
 *    it.
 */
import { AgentUnreachable } from "../../core/call/AgentUnreachable.ts";
import { TAG_LENGTH_MAX } from "../../core/connection/Connection.ts";
import { closedSocket, type PendingSocket } from "../../core/socket/PendingSocket.ts";
import { CLOSE_FAILED, CLOSE_LAGGING, CLOSE_VANISHED } from "../../core/http/closeFrame.ts";
import type { SocketHandlers } from "../../core/http/HttpServer.ts";
import type { Connected, UpgradeCall } from "../../core/namespace/stubTarget.ts";
import { addressKey, type AgentId } from "../../schemas/Address.ts";
import type { SocketInfo } from "../../schemas/bus/GatewayMessage.ts";
import { textResponse } from "../../core/http/responseHead.ts";
import { tooMany } from "./RateLimit.ts";
import type { Entry, SocketServices, SocketTable } from "./SocketTable.ts";

/** As long as a stub's call may take. */
const PENDING_MS_MAX = 60_000;
/** Stands for this process's code. Private addresses have no own limit (`SocketRates`). */
export const OWN_ADDRESS = "127.0.0.1";

/** Rejects with `AgentUnreachable`, and with the reason of `abort`. */
export async function connectSocket(
  services: SocketServices,
  sockets: SocketTable,
  id: AgentId,
  { url, headers, abort, ...given }: UpgradeCall,
): Promise<Connected> {
  const { calls, config, log, time, entityLimit } = services;
  const wait = entityLimit?.take(addressKey(id)) ?? 0;
  if (wait > 0) return refused(tooMany(wait));
  const pk = new URL(url).searchParams.get("_pk");
  if (pk !== null && pk.length > TAG_LENGTH_MAX) return refused(ID_TOO_LONG);
  const info: SocketInfo = {
    gateway: config.gatewayId,
    sid: time.id(),
    since: time.nowMs(),
    id: pk === null || pk === "" ? time.id() : pk,
    url,
    headers,
  };
  // Only the connect sequence reads the headers, so that a host that takes over the agent does not
  // need them.
  const entry = sockets.add(id, { ...info, headers: [] });
  try {
    const { reply, body } = await calls.call(
      id,
      { kind: "connect", socket: info, ...given },
      {
        deadlineMs: config.requestDeadlineMs,
        repeatable: true,
        beforeRepeat: () => {
          if (abort?.fired === true) throw abort.reason;
        },
      },
    );
    if (reply.kind === "connected") {
      entry.attachment = reply.attachment;
      return { socket: pending(services, sockets, entry, reply.close) };
    }
    sockets.remove(entry);
    return reply.kind === "response" ? { reply, body } : { socket: SETUP_FAILED };
  } catch (error) {
    sockets.remove(entry);
    if (error instanceof AgentUnreachable)
      log.warn("a socket's agent can't be reached", { ...id, error: error.message });
    throw error;
  }
}

/** `close`: the agent closed the socket while it connected, after the frames that it sent. */
function pending(
  { time }: SocketServices,
  sockets: SocketTable,
  entry: Entry,
  close: { readonly code: number; readonly reason: string } | undefined,
): PendingSocket {
  let isDropped = false;
  const drop = (): void => {
    isDropped = true;
    cancel();
    if (close === undefined) sockets.onPeerClosed(entry, VANISHED);
    else sockets.remove(entry);
  };
  // Rule 2.
  const cancel = time.after(PENDING_MS_MAX, drop);
  return {
    drop,
    open: (socket, address = OWN_ADDRESS) => {
      cancel();
      if (isDropped) return TOO_LATE.open(socket);
      const handlers = sockets.open(entry, socket, address);
      if (close === undefined) return handlers;
      // The agent never had this socket, so it receives nothing more about it.
      sockets.remove(entry);
      socket.close(close.code, close.reason);
      return IGNORING;
    },
  };
}

const VANISHED = { code: CLOSE_VANISHED, reason: "", wasClean: false };
const IGNORING: SocketHandlers = { onMessage: () => undefined, onClose: () => undefined };

/** The agent could not start: the client receives an error frame and 1011, as in the reference. */
const SETUP_FAILED = closedSocket(
  { code: CLOSE_FAILED, reason: "Uncaught exception during session setup" },
  JSON.stringify({ error: "Internal Server Error" }),
);

/** Rule 2. */
const TOO_LATE = closedSocket({
  code: CLOSE_LAGGING,
  reason: `Not accepted within ${PENDING_MS_MAX / 1_000} seconds`,
});

/** The id is a tag, too. The agent's code is not asked about one that can't be. */
const ID_TOO_LONG = textResponse(400, `_pk has at most ${TAG_LENGTH_MAX} characters`);

const refused = ({ status, headers, body }: ReturnType<typeof tooMany>): Connected => ({
  reply: { kind: "response", status, headers },
  body: typeof body === "string" ? new TextEncoder().encode(body) : body,
});
