/**
 * One WebSocket of a `MemoryHttpServer`. The gateway uses it as a `ServerSocket`; the peer uses
 * `toServer`, `leave` and `cut`. Messages arrive in a later microtask, in order.
 */
import type { ServerSocket, SocketHandlers } from "../../core/http/HttpServer.ts";

/** Receives what the server sends. */
export interface MemoryPeer {
  readonly onMessage: (data: string | Uint8Array) => void;
  /** Once, after the last message. */
  readonly onClose: (code: number, reason: string) => void;
}

const decoder = new TextDecoder("utf-8", { ignoreBOM: true });

/** RFC 6455, 7.4.1: the connection ended without a close frame. */
const ABNORMAL_CLOSURE = 1006;

export class MemorySocket implements ServerSocket {
  /** Resolves when either end has closed the connection. */
  readonly closed: Promise<void>;
  private readonly handlers: SocketHandlers;
  private isClosed = false;
  private resolveClosed: () => void = () => undefined;

  constructor(
    private readonly peer: MemoryPeer,
    open: (socket: ServerSocket) => SocketHandlers,
  ) {
    this.closed = new Promise((resolve) => (this.resolveClosed = resolve));
    this.handlers = open(this);
  }

  send(data: string | Uint8Array): void {
    if (this.isClosed) return;
    const copy = typeof data === "string" ? data : data.slice();
    queueMicrotask(() => this.peer.onMessage(copy));
  }

  sendText(utf8: Uint8Array): void {
    this.send(decoder.decode(utf8));
  }

  close(code: number, reason: string): void {
    this.end(code, reason, true);
  }

  /** Sends a message as the peer. */
  toServer(data: string | Uint8Array): void {
    if (this.isClosed) return;
    const copy = typeof data === "string" ? data : data.slice();
    queueMicrotask(() => this.handlers.onMessage(copy));
  }

  /** Closes the connection as the peer, with a close frame. */
  leave(code: number, reason: string): void {
    this.end(code, reason, true);
  }

  /** Ends the connection without a close frame (code 1006), as a lost network would. */
  cut(): void {
    this.end(ABNORMAL_CLOSURE, "", false);
  }

  private end(code: number, reason: string, wasClean: boolean): void {
    if (this.isClosed) return;
    this.isClosed = true;
    queueMicrotask(() => {
      this.peer.onClose(code, reason);
      this.handlers.onClose(code, reason, wasClean);
      this.resolveClosed();
    });
  }
}
