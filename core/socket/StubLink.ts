/**
 * The way of a socket between code of this process and an agent: what an HTTP server's socket is
 * between a client and an agent. `ObjectSocket` makes it when the `webSocket` of a stub's response
 * is accepted, and has the calls of the code; its listeners receive the events.
 *
 * 1. No listener runs before the code that accepted the socket has ended or waits: it adds them
 *    after `accept`.
 * 2. A close is told once on each side, as by the HTTP server's port: the side that closes learns
 *    of it at once. A close that the process chose by itself (1009, 1013) is not clean, and is an
 *    `error` first.
 */
import { ownBuffer, ownBytes } from "../../schemas/ownBuffer.ts";
import {
  CLOSE_LAGGING,
  CLOSE_NO_CODE,
  CLOSE_TOO_BIG,
  CLOSE_VANISHED,
  sendableCode,
} from "../http/closeFrame.ts";
import type { ServerSocket, SocketHandlers } from "../http/HttpServer.ts";
import { assertCloseFrame, Connection, type ConnectionMessage } from "../connection/Connection.ts";
import type { PendingSocket, SocketHolder } from "./PendingSocket.ts";
import type { SocketEvent, SocketListeners } from "./SocketListeners.ts";

/** As the HTTP server's for a client: `HTTP_BOUNDS_DEFAULT.messageBytesMax`. */
const MESSAGE_BYTES_MAX = 4 * 1024 * 1024;

/** What a socket does for the code that holds it. Implemented by `Connection`, too. */
export interface SocketLink {
  readonly readyState: number;
  readonly uri: string | null;
  send(message: ConnectionMessage): void;
  close(code?: number, reason?: string): void;
  /** Keeps a value with the socket. */
  setState(value: unknown): unknown;
}

/** Text of a frame, as a WebSocket decodes it: U+FEFF at its beginning is a character. */
const decoder = new TextDecoder("utf-8", { ignoreBOM: true });
const encoder = new TextEncoder();

export class StubLink implements SocketLink {
  readonly uri = null;
  readonly #listeners: SocketListeners;
  readonly #holder: SocketHolder;
  readonly #handlers: SocketHandlers;
  readonly #release: () => void;
  #readyState: number = Connection.OPEN;
  /** Rule 1. Undefined once they run. */
  #waiting: SocketEvent[] | undefined = [];

  constructor(pending: PendingSocket, holder: SocketHolder, listeners: SocketListeners) {
    this.#holder = holder;
    this.#listeners = listeners;
    this.#release = holder.hold(() => this.#leave());
    holder.later(() => {
      const waiting = this.#waiting!;
      this.#waiting = undefined;
      for (const event of waiting) this.#tell(event);
    });
    const peer: ServerSocket = {
      send: (data) => this.#received(data),
      sendText: (utf8) => this.#received(decoder.decode(utf8)),
      close: (code, reason) => this.#closed(sendableCode(code) ?? CLOSE_NO_CODE, reason),
    };
    this.#handlers = pending.open(peer);
  }

  get readyState(): number {
    return this.#readyState;
  }

  /** Throws `TypeError` once this side has closed it. Does nothing once the agent has. */
  send(message: ConnectionMessage): void {
    if (this.#readyState === Connection.CLOSING)
      throw new TypeError("send() was called on a socket after close()");
    if (this.#readyState !== Connection.OPEN) return;
    const data = sent(message);
    const bytes = typeof data === "string" ? encoder.encode(data).length : data.length;
    if (bytes <= MESSAGE_BYTES_MAX) this.#handlers.onMessage(data);
    else this.#closed(CLOSE_TOO_BIG, "Message too large");
  }

  close(code?: number, reason = ""): void {
    if (code !== undefined) assertCloseFrame(code, reason);
    if (this.#readyState !== Connection.OPEN) return;
    this.#readyState = Connection.CLOSING;
    this.#end(code ?? CLOSE_NO_CODE, reason);
  }

  /** Nothing: the socket ends with the code that has it. */
  setState(): void {
    return undefined;
  }

  #received(data: string | Uint8Array): void {
    if (this.#readyState !== Connection.OPEN) return;
    this.#tell({ type: "message", data: typeof data === "string" ? data : ownBuffer(data) });
  }

  #closed(code: number, reason: string): void {
    if (this.#readyState !== Connection.OPEN) return;
    this.#readyState = Connection.CLOSED;
    this.#end(code, reason);
  }

  /** Rule 2. */
  #end(code: number, reason: string): void {
    const wasClean = code !== CLOSE_TOO_BIG && code !== CLOSE_LAGGING;
    this.#holder.later(() => {
      this.#readyState = Connection.CLOSED;
      this.#handlers.onClose(code, reason, wasClean);
      if (!wasClean) this.#tell({ type: "error", message: reason, error: new Error(reason) });
      this.#tell({ type: "close", code, reason, wasClean });
      this.#release();
    });
  }

  /** The code is gone, and its listeners with it. */
  #leave(): void {
    if (this.#readyState === Connection.CLOSED) return;
    this.#readyState = Connection.CLOSED;
    this.#handlers.onClose(CLOSE_VANISHED, "", false);
  }

  #tell(event: SocketEvent): void {
    if (this.#waiting !== undefined) this.#waiting.push(event);
    else this.#holder.run(() => this.#listeners.tell(event));
  }
}

/** Copied: it is sent later, and the caller may reuse its buffer. */
export function sent(message: ConnectionMessage): string | Uint8Array {
  return ArrayBuffer.isView(message) || message instanceof ArrayBuffer
    ? ownBytes(message)
    : String(message);
}
