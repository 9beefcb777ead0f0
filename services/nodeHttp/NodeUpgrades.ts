/**
 * The WebSocket handshakes and sockets of one NodeServer. It holds the caller's connection until
 * the handler has decided, answers 101 or a plain response, pings the open sockets, and closes them
 * when the server stops. NodeServer.ts feeds it; each socket is a NodeSocket.ts.
 */
import { ServerResponse, type IncomingMessage } from "node:http";
import type { Socket } from "node:net";
import { WebSocketServer, type WebSocket } from "ws";
import { AbortSource } from "../../core/lazyFetch/AbortSource.ts";
import {
  SOCKET_IDLE_MS,
  type HttpRequest,
  type HttpResponse,
  type HttpServerOptions,
  type UpgradeDecision,
} from "../../core/http/HttpServer.ts";
import { CLOSE_STOPPING } from "../../core/http/closeFrame.ts";
import { PeerBytes } from "../../core/http/PeerBytes.ts";
import { subprotocol } from "../../core/http/requestHead.ts";
import type { TimeoutQueue } from "../../core/time/TimeoutQueue.ts";
import { STOPPING } from "../http/OpenExchanges.ts";
import { NodeExchange, type ExchangeOwner } from "./NodeExchange.ts";
import { NodeSocket } from "./NodeSocket.ts";

// How long a peer may take to answer a close frame, and to read what is unsent before it.
const CLOSE_MS = 10_000;
// How long peers may take to answer the close frames of a stopping server.
const STOP_MS = 1_000;

type Accept = Extract<UpgradeDecision, { _tag: "Accept" }>;

/** The ping interval: a peer of which nothing has arrived since a ping is cut off at the next. */
const pingMs = ({ socketIdleMs = SOCKET_IDLE_MS }: HttpServerOptions): number => socketIdleMs / 2;

export class NodeUpgrades {
  readonly #options: HttpServerOptions;
  readonly #owner: ExchangeOwner;
  readonly #wss: WebSocketServer;
  /** Open sockets, each with the function that cancels its next ping. */
  readonly #sockets = new Map<NodeSocket, () => void>();
  /** Handshakes without a decision, each as the function that ends it. */
  readonly #undecided = new Set<() => void>();
  readonly #unsent: PeerBytes;
  readonly #timeouts: TimeoutQueue;
  readonly #pingMs: number;
  // The result of the library's callback; set before each handshake, which is synchronous.
  #protocol: string | undefined;
  #emptied: (() => void) | undefined;

  constructor(options: HttpServerOptions, owner: ExchangeOwner, timeouts: TimeoutQueue) {
    this.#options = options;
    this.#owner = owner;
    const settings = {
      noServer: true,
      clientTracking: false,
      // NodeSocket answers pings.
      autoPong: false,
      maxPayload: options.messageBytesMax,
      // Compression costs a window of memory for each socket and CPU for each frame, and saves
      // little on a small frame of JSON.
      perMessageDeflate: false,
      // Not in the library's declarations.
      closeTimeout: CLOSE_MS,
      handleProtocols: () => this.#protocol ?? false,
    };
    this.#wss = new WebSocketServer(settings);
    this.#unsent = new PeerBytes(options.unsentBytesMax);
    this.#timeouts = timeouts;
    this.#pingMs = pingMs(options);
  }

  decide(req: IncomingMessage, request: HttpRequest, socket: Socket, head: Buffer): void {
    const abort = new AbortSource();
    const { guard, exchanges } = this.#owner;
    const undecided = this.#undecided;
    const gone = () => {
      if (!undecided.delete(gone)) return;
      abort.fire();
      socket.destroy();
      exchanges.finished();
    };
    undecided.add(gone);
    exchanges.started();
    // node:http has detached the connection: without these listeners an error would end the
    // process. They stay on a connection that is gone.
    socket.on("error", gone).on("end", gone).on("close", gone);
    const release = () => socket.off("error", gone).off("end", gone).off("close", gone);
    const apply = (decision: UpgradeDecision): void => {
      if (!undecided.delete(gone)) return guard.missed(decision, request);
      release();
      decide(decision);
      exchanges.finished();
    };
    const decide = (decision: UpgradeDecision): void => {
      if (decision._tag === "Accept" && !exchanges.stopping)
        return this.#accept(req, request, socket, head, decision);
      guard.missed(decision, request);
      const response = decision._tag === "Accept" ? STOPPING : decision.response;
      this.refuse(req, request, socket, response);
    };
    // The guard's promise never rejects.
    void guard.onUpgrade(request, abort.signal).then(apply);
  }

  /** Sends a plain response on a connection that node:http has detached, and closes that. */
  refuse(req: IncomingMessage, request: HttpRequest, socket: Socket, response: HttpResponse): void {
    const res = new ServerResponse(req);
    res.shouldKeepAlive = false;
    res.assignSocket(socket);
    socket.on("error", () => socket.destroy());
    res.once("finish", () => socket.destroySoon());
    this.#owner.exchanges.started();
    new NodeExchange(this.#owner, request, req, res).respond(response);
  }

  /** Ends the handshakes that still wait for a decision. */
  cutUndecided(): void {
    for (const gone of this.#undecided) gone();
  }

  /** Closes every socket with 1001. Resolves when the peers have answered, or after `STOP_MS`. */
  async stop(): Promise<void> {
    if (this.#sockets.size === 0) return;
    const emptied = new Promise<void>((resolve) => (this.#emptied = resolve));
    for (const socket of this.#sockets.keys()) socket.close(CLOSE_STOPPING, "Server is stopping");
    const timer = setTimeout(() => {
      for (const socket of this.#sockets.keys()) socket.terminate();
    }, STOP_MS);
    await emptied;
    clearTimeout(timer);
  }

  #accept(
    req: IncomingMessage,
    request: HttpRequest,
    connection: Socket,
    head: Buffer,
    decision: Accept,
  ): void {
    this.#protocol = subprotocol(request.headers, decision.protocol);
    let opened = false;
    this.#wss.handleUpgrade(req, connection, head, (ws) => {
      opened = true;
      this.#open(ws, connection, decision.open);
    });
    // The library opens no socket on a connection that has just ended.
    if (!opened) this.#owner.guard.missed(decision, request);
  }

  /** Apart from `#accept`, whose closures would keep the whole request while the socket is open. */
  #open(ws: WebSocket, connection: Socket, open: Accept["open"]): void {
    const limits = { bufferBytesMax: this.#options.socketBufferBytesMax, unsent: this.#unsent };
    const socket = new NodeSocket(ws, connection, limits, open);
    this.#pingLater(socket);
    ws.once("close", () => this.#closed(socket));
  }

  #pingLater(socket: NodeSocket): void {
    const cancel = this.#timeouts.after(this.#pingMs, () => {
      if (socket.ping()) this.#pingLater(socket);
    });
    this.#sockets.set(socket, cancel);
  }

  #closed(socket: NodeSocket): void {
    this.#sockets.get(socket)?.();
    this.#sockets.delete(socket);
    if (this.#sockets.size === 0) this.#emptied?.();
  }
}
