/**
 * One WebSocket on uWebSockets.js. UwsUpgrade.ts creates it for an accepted upgrade, and
 * UwsServer.ts passes it the library's events. The handlers that `open` returned receive the
 * messages, and send and close through it.
 *
 * 1. `ws` is never used after the library's close event, when its memory is freed.
 * 2. `onClose` is called exactly once, and never inside a call of `send` or `close`: handlers may
 *    close a socket while they iterate over sockets.
 * 3. Unsent bytes over the limit end the socket with 1013 (rule 5 of HttpServer.ts). The library
 *    frees what it holds when the peer reads, or by its timeout after `end`, 8 to 12 s. It calls
 *    the close event within `end`, and does not report what it still holds. Those bytes are counted
 *    until the timeout. If the total has no room for them, the socket is cut off instead.
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
  TOO_SLOW,
} from "../../core/http/closeFrame.ts";
import { largestUnsent, type PeerBytes, type Peer } from "../../core/http/PeerBytes.ts";
import { asUtf8 } from "./asUtf8.ts";

export interface SocketLimits {
  readonly socketBufferBytesMax: number;
  readonly messageBytesMax: number;
  readonly unsent: PeerBytes;
  /** Counts bytes that the library holds after `end` (invariant 3). As `PeerBytes.hold`. */
  readonly hold: (bytes: number) => boolean;
}

/** The library copies this object's keys onto each socket. */
export interface SocketData {
  readonly socket: UwsSocket;
}

// `send` returns this if nothing is buffered.
const SENT = 1;

// The library's reason, the only sign of why it closed a socket with 1006.
const LIBRARY_TOO_BIG = "Received too big message";

export class UwsSocket implements ServerSocket, Peer {
  readonly #limits: SocketLimits;
  /** Dropped once called, because it references the handshake's decision. */
  #open: ((socket: ServerSocket) => SocketHandlers) | undefined;
  #ws: WebSocket<SocketData> | undefined;
  #handlers: SocketHandlers | undefined;
  #largeBytes = 0;

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
    if (status !== SENT) this.#checkBuffered(data);
  }

  #checkBuffered(newest: string | Uint8Array): void {
    const { socketBufferBytesMax: bytesMax, unsent, hold } = this.#limits;
    const { keptBytes } = this;
    this.#largeBytes = largestUnsent(this.#largeBytes, { keptBytes, newest, bytesMax });
    if (keptBytes - this.#largeBytes <= bytesMax) return unsent.report(this);
    unsent.forget(this);
    if (hold(keptBytes)) this.#end(CLOSE_LAGGING, TOO_SLOW, false);
    else this.cut();
  }

  get keptBytes(): number {
    return this.#ws?.getBufferedAmount() ?? 0;
  }

  cut(): void {
    const ws = this.#ws;
    if (ws === undefined) return;
    this.#ws = undefined;
    this.#report(CLOSE_LAGGING, TOO_SLOW, false);
    ws.close();
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
    // The library reuses its buffer. Binary data is copied; decoding text copies it anyway.
    this.#handlers?.onMessage(binary ? new Uint8Array(bytes) : bytes.toString("utf8"));
  }

  /** The library's ping event. Unread pongs count as unsent bytes too (invariant 3). */
  pinged(bytes: number): void {
    if (this.#ws === undefined) return;
    this.#handlers?.onPing?.(bytes);
    this.#checkBuffered("");
  }

  /** The library's close event: the peer closed or vanished. Our own `end` was reported before. */
  closed(code: number, message: ArrayBuffer): void {
    this.#limits.unsent.forget(this);
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
