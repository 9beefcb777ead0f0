/**
 * One WebSocket on the `ws` library. NodeServer.ts creates it when an upgrade was accepted; the
 * handlers that `open` returned receive its messages, and send and close through it.
 *
 * 1. onClose comes exactly once, and never inside a call of `send` or `close`: handlers may close a
 *    socket in the middle of a loop over sockets.
 * 2. Unsent bytes past the limit end the socket with 1013 (rule 5 of HttpServer.ts); what was unsent
 *    is freed when the peer reads on or when the close time that the library was given is over.
 * 3. A peer that answers no ping is cut off.
 */
import type { RawData, WebSocket } from "ws";
import type { ServerSocket, SocketHandlers } from "../../core/http/HttpServer.ts";
import {
  CLOSE_LAGGING,
  CLOSE_NO_CODE,
  CLOSE_TOO_BIG,
  CLOSE_VANISHED,
  sendableCode,
  sendableReason,
} from "../../core/http/closeFrame.ts";

// Empty ones cost more than their bytes say. Whoever pings a thousand times without a pause is no peer that wants to know.
const PONGS_MAX = 1_000;

export class NodeSocket implements ServerSocket {
  readonly #ws: WebSocket;
  readonly #bufferBytesMax: number;
  readonly #handlers: SocketHandlers;
  #closed = false;
  #answered = true;
  /** Answers to pings that the kernel has not taken. */
  #pongs = 0;

  constructor(
    ws: WebSocket,
    bufferBytesMax: number,
    open: (socket: ServerSocket) => SocketHandlers,
  ) {
    this.#ws = ws;
    this.#bufferBytesMax = bufferBytesMax;
    // Listening starts after `open` returned; the library emits nothing before this turn ends.
    this.#handlers = open(this);
    ws.on("message", (data, binary) => this.#received(data, binary));
    ws.on("ping", (data) => this.#pinged(data));
    ws.on("pong", () => (this.#answered = true));
    ws.on("error", (cause: Error & { readonly code?: string }) => this.#failed(cause.code));
    ws.on("close", (code, reason) => this.#peerClosed(code, reason));
  }

  send(data: string | Uint8Array): void {
    this.#send(data, typeof data !== "string");
  }

  sendText(utf8: Uint8Array): void {
    this.#send(utf8, false);
  }

  #send(data: string | Uint8Array, binary: boolean): void {
    if (this.#closed) return;
    this.#ws.send(data, { binary });
    this.#checkBuffered();
  }

  /** Answered here and not by the library, which would cut the connection of a peer that does not read (invariant 2). */
  #pinged(data: Buffer): void {
    if (this.#closed) return;
    this.#answered = true;
    this.#handlers.onPing?.(data.byteLength);
    if (this.#closed) return;
    this.#pongs += 1;
    this.#ws.pong(data, undefined, () => (this.#pongs -= 1));
    if (this.#pongs > PONGS_MAX) this.#end(CLOSE_LAGGING, "Too slow to receive", false);
    else this.#checkBuffered();
  }

  #checkBuffered(): void {
    if (this.#ws.bufferedAmount > this.#bufferBytesMax) {
      this.#end(CLOSE_LAGGING, "Too slow to receive", false);
    }
  }

  close(code: number, reason: string): void {
    this.#end(code, reason, true);
  }

  /** Called at the server's ping interval. Whether the peer is still there. */
  ping(): boolean {
    if (!this.#answered) this.terminate();
    else if (!this.#closed) this.#ws.ping();
    const alive = this.#answered;
    this.#answered = false;
    return alive;
  }

  terminate(): void {
    this.#ws.terminate();
  }

  #received(data: RawData, binary: boolean): void {
    if (this.#closed) return;
    this.#answered = true;
    // The library's default binaryType delivers a Buffer.
    const bytes = data as Buffer;
    this.#handlers.onMessage(binary ? new Uint8Array(bytes) : bytes.toString("utf8"));
  }

  /** The peer broke the protocol, or its connection did: the library closes and says why. */
  #failed(code: string | undefined): void {
    if (code !== "WS_ERR_UNSUPPORTED_MESSAGE_LENGTH") return;
    this.#report(CLOSE_TOO_BIG, "Message too large", false);
  }

  #peerClosed(code: number, reason: Buffer): void {
    this.#report(code, reason.toString("utf8"), code !== CLOSE_VANISHED);
  }

  #end(code: number, reason: string, clean: boolean): void {
    if (this.#closed) return;
    const sent = sendableCode(code);
    this.#report(sent ?? CLOSE_NO_CODE, reason, clean);
    if (sent === undefined) this.#ws.close();
    else this.#ws.close(sent, sendableReason(reason));
  }

  #report(code: number, reason: string, clean: boolean): void {
    if (this.#closed) return;
    this.#closed = true;
    queueMicrotask(() => this.#handlers.onClose(code, reason, clean));
  }
}
