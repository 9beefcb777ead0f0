/**
 * One WebSocket on the `ws` library. NodeUpgrades.ts creates it for an accepted upgrade. The
 * handlers that `open` returned receive its messages, and send and close through it.
 *
 * 1. `onClose` is called exactly once, and never inside a call of `send` or `close`: handlers may
 *    close a socket while they iterate over sockets.
 * 2. Unsent bytes over the limit end the socket with 1013 (rule 5 of HttpServer.ts). They are freed
 *    when the peer reads, or after the library's close timeout.
 * 3. A peer of which no byte arrives between two pings is cut off. Bytes count and not messages,
 *    because a peer can't answer a ping in the middle of a large frame.
 */
import type { Socket } from "node:net";
import type { RawData, WebSocket } from "ws";
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

// Bounds empty pongs too, which cost more than their bytes. A peer that sends a thousand pings
// without reading is not checking its connection.
const PONGS_MAX = 1_000;

export class NodeSocket implements ServerSocket, Peer {
  readonly #ws: WebSocket;
  readonly #bufferBytesMax: number;
  readonly #unsent: PeerBytes;
  readonly #handlers: SocketHandlers;
  readonly #connection: Pick<Socket, "bytesRead">;
  #closed = false;
  #largeBytes = 0;
  /** Bytes that had arrived at the last ping. */
  #bytesRead = 0;
  /** Pongs that the kernel has not taken. */
  #pongs = 0;

  constructor(
    ws: WebSocket,
    connection: Pick<Socket, "bytesRead">,
    { bufferBytesMax, unsent }: { readonly bufferBytesMax: number; readonly unsent: PeerBytes },
    open: (socket: ServerSocket) => SocketHandlers,
  ) {
    this.#ws = ws;
    this.#connection = connection;
    this.#bufferBytesMax = bufferBytesMax;
    this.#unsent = unsent;
    // No event is lost: the library emits nothing before this turn of the event loop ends.
    this.#handlers = open(this);
    ws.on("message", (data, binary) => this.#received(data, binary));
    ws.on("ping", (data) => this.#pinged(data));
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
    this.#checkBuffered(data);
  }

  /** The library answers no pings: it would cut off a peer that does not read (invariant 2). */
  #pinged(data: Buffer): void {
    if (this.#closed) return;
    this.#handlers.onPing?.(data.byteLength);
    if (this.#closed) return;
    this.#pongs += 1;
    this.#ws.pong(data, undefined, () => (this.#pongs -= 1));
    if (this.#pongs > PONGS_MAX) this.#end(CLOSE_LAGGING, TOO_SLOW, false);
    else this.#checkBuffered("");
  }

  #checkBuffered(newest: string | Uint8Array): void {
    const { keptBytes } = this;
    const bytesMax = this.#bufferBytesMax;
    this.#largeBytes = largestUnsent(this.#largeBytes, { keptBytes, newest, bytesMax });
    if (keptBytes - this.#largeBytes > bytesMax) this.#end(CLOSE_LAGGING, TOO_SLOW, false);
    // Also after its end: the library holds the bytes until the peer reads.
    this.#unsent.report(this);
  }

  get keptBytes(): number {
    return this.#ws.bufferedAmount;
  }

  cut(): void {
    this.#report(CLOSE_LAGGING, TOO_SLOW, false);
    this.#ws.terminate();
  }

  close(code: number, reason: string): void {
    this.#end(code, reason, true);
  }

  /** Called at the ping interval. Returns false if it has cut off the peer (invariant 3). */
  ping(): boolean {
    const { bytesRead } = this.#connection;
    const alive = bytesRead > this.#bytesRead;
    this.#bytesRead = bytesRead;
    if (!alive) this.terminate();
    else if (!this.#closed) this.#ws.ping();
    return alive;
  }

  terminate(): void {
    this.#ws.terminate();
  }

  #received(data: RawData, binary: boolean): void {
    if (this.#closed) return;
    // The library's default binaryType delivers a Buffer.
    const bytes = data as Buffer;
    this.#handlers.onMessage(binary ? new Uint8Array(bytes) : bytes.toString("utf8"));
  }

  /** The library reports an error of the protocol or of the connection before it closes. */
  #failed(code: string | undefined): void {
    if (code !== "WS_ERR_UNSUPPORTED_MESSAGE_LENGTH") return;
    this.#report(CLOSE_TOO_BIG, "Message too large", false);
  }

  #peerClosed(code: number, reason: Buffer): void {
    this.#unsent.forget(this);
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
