/**
 * One WebSocket of a `MemoryHttpServer`, with both its ends: `ServerSocket` for the gateway, and
 * `toServer`, `leave` and `cut` for the peer. Messages arrive in a later microtask, in order.
 */
import type { ServerSocket, SocketHandlers } from "../../core/http/HttpServer.ts";

/** What the other end hears. */
export interface MemoryPeer {
  readonly onMessage: (data: string | Uint8Array) => void;
  /** Once, after the last message. */
  readonly onClose: (code: number, reason: string) => void;
}

const decoder = new TextDecoder();

/** RFC 6455, 7.4.1: no close frame came. */
const VANISHED = 1006;

export class MemorySocket implements ServerSocket {
  /** Resolves when either end has closed it. */
  readonly closed: Promise<void>;
  private readonly peer: MemoryPeer;
  private readonly handlers: SocketHandlers;
  private isClosed = false;
  private tellClosed: () => void = () => undefined;

  constructor(peer: MemoryPeer, open: (socket: ServerSocket) => SocketHandlers) {
    this.peer = peer;
    this.closed = new Promise((resolve) => (this.tellClosed = resolve));
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

  /** The peer sends. */
  toServer(data: string | Uint8Array): void {
    if (this.isClosed) return;
    const copy = typeof data === "string" ? data : data.slice();
    queueMicrotask(() => this.handlers.onMessage(copy));
  }

  /** The peer closes in order. */
  leave(code: number, reason: string): void {
    this.end(code, reason, true);
  }

  /** The peer is gone without a word. */
  cut(): void {
    this.end(VANISHED, "", false);
  }

  private end(code: number, reason: string, wasClean: boolean): void {
    if (this.isClosed) return;
    this.isClosed = true;
    queueMicrotask(() => {
      this.peer.onClose(code, reason);
      this.handlers.onClose(code, reason, wasClean);
      this.tellClosed();
    });
  }
}
