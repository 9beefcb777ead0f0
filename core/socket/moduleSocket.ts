/**
 * A socket whose server's end belongs to the code of a module: its `fetch` has accepted one end of
 * a `WebSocketPair` and returned the other. `socketResponse` makes it, the HTTP server opens it for
 * the client; `ObjectSocket` has the calls of the code, and its listeners receive the events.
 *
 * The socket ends with its process, and is not in the journal. What must outlive a process is a
 * socket of an agent or a Durable Object.
 */
import { ownBuffer } from "../../schemas/ownBuffer.ts";
import { CLOSE_LAGGING, CLOSE_NO_CODE, CLOSE_TOO_BIG, CLOSE_VANISHED } from "../http/closeFrame.ts";
import type { ServerSocket, SocketHandlers } from "../http/HttpServer.ts";
import { assertCloseFrame, Connection } from "../connection/Connection.ts";
import { ObjectSocket } from "./ObjectSocket.ts";
import type { PendingSocket, SocketHolder } from "./PendingSocket.ts";
import type { SocketEvent } from "./SocketListeners.ts";
import { sent, type SocketLink } from "./StubLink.ts";

const { bind, listeners } = ObjectSocket.internals;

/** `server`: the accepted end. `run`: as of `SocketHolder`. */
export function moduleSocket(server: ObjectSocket, run: SocketHolder["run"]): PendingSocket {
  const tell = (event: SocketEvent): void => run(() => listeners(server).tell(event));
  return {
    drop: () => tell({ type: "close", code: CLOSE_VANISHED, reason: "", wasClean: false }),
    open: (client) => {
      const link = new ClientLink(client);
      bind(server, link);
      return link.handlers(tell);
    },
  };
}

class ClientLink implements SocketLink {
  readonly uri = null;
  readonly #client: ServerSocket;
  #readyState: number = Connection.OPEN;

  constructor(client: ServerSocket) {
    this.#client = client;
  }

  get readyState(): number {
    return this.#readyState;
  }

  /** Throws `TypeError` once this side has closed it. Does nothing once the client has. */
  send(message: Parameters<SocketLink["send"]>[0]): void {
    if (this.#readyState === Connection.CLOSING)
      throw new TypeError("send() was called on a socket after close()");
    if (this.#readyState === Connection.OPEN) this.#client.send(sent(message));
  }

  close(code?: number, reason = ""): void {
    if (code !== undefined) assertCloseFrame(code, reason);
    if (this.#readyState !== Connection.OPEN) return;
    this.#readyState = Connection.CLOSING;
    this.#client.close(code ?? CLOSE_NO_CODE, reason);
  }

  /** Nothing: the socket ends with its code. */
  setState(): void {
    return undefined;
  }

  handlers(tell: (event: SocketEvent) => void): SocketHandlers {
    return {
      onMessage: (data) =>
        tell({
          type: "message",
          data: typeof data === "string" ? data : ownBuffer(data),
        }),
      onClose: (code, reason, wasClean) => {
        this.#readyState = Connection.CLOSED;
        if (!wasClean && (code === CLOSE_TOO_BIG || code === CLOSE_LAGGING))
          tell({ type: "error", message: reason, error: new Error(reason) });
        tell({ type: "close", code, reason, wasClean });
      },
    };
  }
}
