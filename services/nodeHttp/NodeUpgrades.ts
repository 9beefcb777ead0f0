/**
 * The WebSocket handshakes and sockets of one NodeServer: waits for the handler's decision with the
 * caller's connection in hand, answers 101 or a plain response, keeps the open sockets, pings them,
 * and closes them when the server stops. NodeServer.ts feeds it; each socket is a NodeSocket.ts.
 */
import { ServerResponse, type IncomingMessage } from "node:http";
import type { Socket } from "node:net";
import { WebSocketServer } from "ws";
import { AbortSource } from "../../core/http/AbortSource.ts";
import {
  SOCKET_IDLE_MS,
  type HttpRequest,
  type HttpResponse,
  type HttpServerOptions,
  type UpgradeDecision,
} from "../../core/http/HttpServer.ts";
import { TimeoutQueue } from "../../core/http/TimeoutQueue.ts";
import { CLOSE_STOPPING } from "../../core/http/closeFrame.ts";
import { subprotocol } from "../../core/http/requestHead.ts";
import { textResponse } from "../../core/http/responseHead.ts";
import { NodeExchange, type ExchangeOwner } from "./NodeExchange.ts";
import { NodeSocket } from "./NodeSocket.ts";

// How long a peer may take to answer a close frame, or to read what is still unsent before it.
const CLOSE_MS = 10_000;
// What peers get to answer the close frames of a server that stops.
const STOP_MS = 1_000;

const STOPPING = textResponse(503, "Server is stopping");

type Accept = Extract<UpgradeDecision, { _tag: "Accept" }>;

/** A peer misses one ping and is cut off at the next: two make its idle time. */
export const pingMs = ({ socketIdleMs = SOCKET_IDLE_MS }: HttpServerOptions): number =>
  socketIdleMs / 2;

export class NodeUpgrades {
  readonly #options: HttpServerOptions;
  readonly #owner: ExchangeOwner;
  readonly #wss: WebSocketServer;
  readonly #sockets = new Set<NodeSocket>();
  readonly #pings: TimeoutQueue<NodeSocket>;
  // What the library's callback answers; set just before each handshake, which is synchronous.
  #protocol: string | undefined;
  #emptied: (() => void) | undefined;

  constructor(options: HttpServerOptions, owner: ExchangeOwner) {
    this.#options = options;
    this.#owner = owner;
    const settings = {
      noServer: true,
      clientTracking: false,
      // NodeSocket answers pings.
      autoPong: false,
      maxPayload: options.messageBytesMax,
      // No compression: it costs a window of memory per socket and the CPU of every frame, and a
      // small frame of JSON gains little.
      perMessageDeflate: false,
      // The library's declarations lack this one.
      closeTimeout: CLOSE_MS,
      handleProtocols: () => this.#protocol ?? false,
    };
    this.#wss = new WebSocketServer(settings);
    this.#pings = new TimeoutQueue(pingMs(options), (socket) => this.#ping(socket));
  }

  decide(req: IncomingMessage, request: HttpRequest, socket: Socket, head: Buffer): void {
    const abort = new AbortSource();
    const gone = () => {
      abort.fire();
      socket.destroy();
    };
    // node:http has let go of the connection: without these an error would stop the process.
    socket.on("error", gone).on("end", gone).on("close", gone);
    const release = () => socket.off("error", gone).off("end", gone).off("close", gone);
    const { guard } = this.#owner;
    const apply = (decision: UpgradeDecision): void => {
      if (abort.fired) return guard.missed(decision, request);
      release();
      if (decision._tag === "Accept" && !this.#owner.stopping)
        return this.#accept(req, request, socket, head, decision);
      guard.missed(decision, request);
      const response = decision._tag === "Accept" ? STOPPING : decision.response;
      this.refuse(req, request, socket, response);
    };
    // The guard's promise never rejects.
    void guard.onUpgrade(request, abort.signal).then(apply);
  }

  /** A plain response on a connection that node:http gave away; the connection ends with it. */
  refuse(req: IncomingMessage, request: HttpRequest, socket: Socket, response: HttpResponse): void {
    const res = new ServerResponse(req);
    res.shouldKeepAlive = false;
    res.assignSocket(socket);
    socket.on("error", () => socket.destroy());
    res.once("finish", () => socket.destroySoon());
    this.#owner.started();
    new NodeExchange(this.#owner, request, req, res).respond(response);
  }

  sweep(nowMs: number): void {
    this.#pings.sweep(nowMs);
  }

  /** Closes every socket with 1001; resolves when the peers have answered or their time is over. */
  async stop(): Promise<void> {
    if (this.#sockets.size === 0) return;
    const emptied = new Promise<void>((resolve) => (this.#emptied = resolve));
    for (const socket of this.#sockets) socket.close(CLOSE_STOPPING, "Server is stopping");
    const timer = setTimeout(() => {
      for (const socket of this.#sockets) socket.terminate();
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
      const limit = this.#options.socketBufferBytesMax;
      const socket = new NodeSocket(ws, limit, decision.open);
      this.#sockets.add(socket);
      this.#pings.add(socket, performance.now());
      ws.once("close", () => this.#closed(socket));
    });
    // The library opens none on a connection that has just ended.
    if (!opened) this.#owner.guard.missed(decision, request);
  }

  #ping(socket: NodeSocket): void {
    if (socket.ping()) this.#pings.add(socket, performance.now());
  }

  #closed(socket: NodeSocket): void {
    this.#pings.remove(socket);
    this.#sockets.delete(socket);
    if (this.#sockets.size === 0) this.#emptied?.();
  }
}
