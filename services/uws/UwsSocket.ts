/**
 * One WebSocket on uWebSockets.js. UwsServer.ts creates it when an upgrade was accepted and feeds it
 * the library's events; the handlers that `open` returned receive them, and send and close through it.
 *
 * 1. `ws` is never touched after the library's close event: it points to freed memory then.
 * 2. onClose comes exactly once, and never inside a call of `send` or `close`: handlers may close a
 *    socket in the middle of a loop over sockets.
 * 3. Unsent bytes past the limit end the socket with 1013 (rule 5 of HttpServer.ts). What the
 *    library holds by then is freed when the peer reads on or, if it does not, by the library's
 *    timeout after `end`, 8 to 12 s.
 */
import type { WebSocket } from "uWebSockets.js";
import type { ServerSocket, SocketHandlers } from "../../core/http/HttpServer.ts";
import {
  CLOSE_LAGGING,
  CLOSE_NO_CODE,
  CLOSE_TOO_BIG,
  CLOSE_VANISHED,
  sendableCode,
  sendableReason,
} from "../../core/http/closeFrame.ts";
import { asUtf8 } from "./asUtf8.ts";

export interface SocketLimits {
  readonly socketBufferBytesMax: number;
  readonly messageBytesMax: number;
}

/** The library copies this object's keys onto each socket. */
export interface SocketData {
  readonly socket: UwsSocket;
}

// What `send` returns when everything was taken; any other value means bytes are waiting.
const SENT = 1;

// The library's own reason, the only sign of what ended a socket that it reports as 1006.
const LIBRARY_TOO_BIG = "Received too big message";

export class UwsSocket implements ServerSocket {
  readonly #limits: SocketLimits;
  /** Until it is opened: it holds what the handshake was decided by. */
  #open: ((socket: ServerSocket) => SocketHandlers) | undefined;
  #ws: WebSocket<SocketData> | undefined;
  #handlers: SocketHandlers | undefined;

  constructor(limits: SocketLimits, open: (socket: ServerSocket) => SocketHandlers) {
    this.#limits = limits;
    this.#open = open;
  }

  send(data: string | Uint8Array): void {
    this.#send(data, typeof data !== "string");
  }

  sendText(utf8: Uint8Array): void {
    this.#send(utf8, false);
  }

  #send(data: string | Uint8Array, binary: boolean): void {
    const ws = this.#ws;
    if (ws === undefined) return;
    const status = ws.send(asUtf8(data), binary, false);
    if (status !== SENT) this.#checkBuffered();
  }

  #checkBuffered(): void {
    if ((this.#ws?.getBufferedAmount() ?? 0) > this.#limits.socketBufferBytesMax)
      this.#end(CLOSE_LAGGING, "Too slow to receive", false);
  }

  close(code: number, reason: string): void {
    this.#end(code, reason, true);
  }

  opened(ws: WebSocket<SocketData>): void {
    this.#ws = ws;
    this.#handlers = this.#open?.(this);
    this.#open = undefined;
  }

  received(message: ArrayBuffer, binary: boolean): void {
    if (this.#ws === undefined) return;
    if (message.byteLength > this.#limits.messageBytesMax) {
      this.#end(CLOSE_TOO_BIG, "Message too large", false);
      return;
    }
    const bytes = Buffer.from(message);
    // Binary is copied, for the library reuses its buffer; decoding text is a copy already.
    this.#handlers?.onMessage(binary ? new Uint8Array(bytes) : bytes.toString("utf8"));
  }

  /** Its answer may be unread, as anything that was sent (invariant 3). */
  pinged(bytes: number): void {
    if (this.#ws === undefined) return;
    this.#handlers?.onPing?.(bytes);
    this.#checkBuffered();
  }

  /** The library's close event: the peer closed or vanished, or our own `end`, reported before. */
  closed(code: number, message: ArrayBuffer): void {
    if (this.#ws === undefined) return;
    this.#ws = undefined;
    const reason = Buffer.from(message).toString("utf8");
    if (code !== CLOSE_VANISHED) this.#report(code, reason, true);
    else if (reason.startsWith(LIBRARY_TOO_BIG)) {
      this.#report(CLOSE_TOO_BIG, "Message too large", false);
    } else this.#report(CLOSE_VANISHED, "", false);
  }

  #end(code: number, reason: string, clean: boolean): void {
    const ws = this.#ws;
    if (ws === undefined) return;
    this.#ws = undefined;
    const sent = sendableCode(code);
    this.#report(sent ?? CLOSE_NO_CODE, reason, clean);
    // 0 makes the library send a close frame without a code.
    ws.end(sent ?? 0, asUtf8(sendableReason(reason)));
  }

  #report(code: number, reason: string, clean: boolean): void {
    queueMicrotask(() => this.#handlers?.onClose(code, reason, clean));
  }
}
