/**
 * A socket that an agent has accepted, and whose other end is not there yet. `services/gateway`
 * makes it; it ends at a client of the HTTP server, or at code of this process (`StubLink`).
 */
import type { ServerSocket, SocketHandlers } from "../http/HttpServer.ts";

export interface PendingSocket {
  /**
   * The other end is there: `socket` receives the frames that the agent has sent, then those to
   * come. Called at most once. `address`: its client's, for rate limits. Default: no client's.
   */
  readonly open: (socket: ServerSocket, address?: string) => SocketHandlers;
  /** There will be none: the agent is told that the socket has closed. */
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
