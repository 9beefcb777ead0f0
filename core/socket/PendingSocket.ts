/**
 * A socket that an agent has accepted and whose other end is not open yet. `services/gateway` makes
 * it. The other end is a client of the HTTP server, or code of this process (`StubLink`).
 */
import type { ServerSocket, SocketHandlers } from "../http/HttpServer.ts";

export interface PendingSocket {
  /**
   * The other end is open: `socket` receives the frames that the agent has sent, then later ones.
   * Called at most once. `address`: the client's, for rate limits. Default: there is no client.
   */
  readonly open: (socket: ServerSocket, address?: string) => SocketHandlers;
  /** The other end will not open. The agent is notified that the socket has closed. */
  readonly drop: () => void;
}

/** Whose code has an end of a socket: an agent's, or no agent's. */
export interface SocketHolder {
  /** Runs the listeners of one event. */
  readonly run: (f: () => Promise<void>) => void;
  /** Runs `f` once the running code has ended or waits. */
  readonly later: (f: () => void) => void;
  /**
   * The code has a socket from now until the returned function is called. `leave`: called when the
   * code's agent leaves this process before that.
   */
  readonly hold: (leave: () => void) => () => void;
}

/**
 * A socket that no agent has: it is accepted, and closed after this frame. Browsers hide the status
 * of a refused upgrade, and would ask again for ever.
 */
export const closedSocket = (
  { code, reason }: { readonly code: number; readonly reason: string },
  frame?: string,
): PendingSocket => ({
  drop: () => undefined,
  open: (socket) => {
    if (frame !== undefined) socket.send(frame);
    socket.close(code, reason);
    return { onMessage: () => undefined, onClose: () => undefined };
  },
});
