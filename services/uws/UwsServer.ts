/**
 * The HttpServer port on uWebSockets.js: listens, reads heads, refuses invalid requests, and passes
 * requests to UwsExchange.ts and sockets to UwsSocket.ts. The gateway supplies the handlers.
 *
 * The library decides the following, and this adapter cannot change it. A head must arrive, and an
 * idle kept-alive connection must send a request, within 10 s (8 to 12 s, in ticks of 4 s), so a
 * shorter `headerTimeoutMs` has no effect. A body must keep up 16 KiB/s. A head has at most 98
 * fields; names consist of letters, digits and hyphens (any other name counts as incomplete), and
 * values lose bytes above 127 at both ends. HTTP/1.0 is answered with 505 (and, on Node 20, so is a
 * request line that arrives in two reads), chunk extensions and trailers with 4xx or 5xx. A request
 * pipelined behind an unanswered one cuts the connection.
 *
 * `OpenExchanges` counts the exchanges and ends them when the server stops.
 *
 * 1. An upgraded connection leaves the library's connection count without an event. It is counted
 *    here until its socket closes.
 */
import * as Effect from "effect/Effect";
import * as Layer from "effect/Layer";
import type * as Scope from "effect/Scope";
import type {
  HttpRequest as UwsRequest,
  HttpResponse as UwsResponse,
  TemplatedApp,
  WebSocket,
  us_listen_socket,
  us_socket_context_t,
} from "uWebSockets.js";
import {
  HttpServer,
  SOCKET_IDLE_MS,
  type HttpHandlers,
  type HttpServerOptions,
  type HttpServerShape,
  type ListenFailed,
} from "../../core/http/HttpServer.ts";
import { CLOSE_STOPPING } from "../../core/http/closeFrame.ts";
import { GuardedHandlers } from "../../core/http/GuardedHandlers.ts";
import { checkHead, handshake, namesResource } from "../../core/http/requestHead.ts";
import { bodyTooLarge, textResponse } from "../../core/http/responseHead.ts";
import { TimeoutQueue, timeoutSlackMs } from "../../core/time/TimeoutQueue.ts";
import { explainListen } from "../http/explainListen.ts";
import { OpenExchanges, STOPPING } from "../http/OpenExchanges.ts";
import { machineTime } from "../node/MachineTime.ts";
import { CorkAnchor } from "./CorkAnchor.ts";
import { HeadReader } from "./HeadReader.ts";
import { UwsExchange, type ExchangeOwner } from "./UwsExchange.ts";
import type { SocketData, SocketLimits, UwsSocket } from "./UwsSocket.ts";
import { UwsUpgrade } from "./UwsUpgrade.ts";
import { PeerBytes } from "../../core/http/PeerBytes.ts";
import { loadUws, UwsUnavailable, type Uws } from "./loadUws.ts";

export { UwsUnavailable };

export const makeUwsServer = (uws: Uws): HttpServerShape => ({
  name: "uWebSockets.js",
  listen: Effect.fnUntraced(function* (options, handlers) {
    const server = yield* Effect.acquireRelease(open(uws, options, handlers), (opened) =>
      Effect.promise(() => opened.stop()),
    );
    return { port: server.port };
  }),
});

// How long close frames have to leave the machine before connections are cut. They are in the
// kernel by then unless the peer reads slowly, and the library has no event for that case.
const FLUSH_MS = 100;

// The library pings 8 s before the idle timeout of a socket, in ticks of 4 s.
const SOCKET_IDLE_S_MIN = 12;

// The library cuts the connection at its own limit. That limit is above ours, so that a message
// that is slightly too large is closed with 1009. It bounds what one socket can make the process
// hold.
const PAYLOAD_FACTOR = 2;
const PAYLOAD_BYTES_MAX = 2 ** 31 - 1;

// LIBUS_LISTEN_EXCLUSIVE_PORT, which the library's declarations lack. Without it, a second server
// could listen on the same port and receive some of the connections.
const EXCLUSIVE_PORT = 1;
// LIBUS_LISTEN_DEFAULT, which shares the port.
const SHARED_PORT = 0;
// The library frees what the peer of a closed socket has not read after 8 to 12 s.
const HELD_MS_MAX = 12_000;

class Server implements ExchangeOwner {
  port = 0;
  readonly guard: GuardedHandlers;
  readonly exchanges: OpenExchanges;
  readonly uncorked: (write: () => void) => void;
  readonly #uws: Uws;
  readonly #app: TemplatedApp;
  readonly #anchor: CorkAnchor;
  readonly #options: HttpServerOptions;
  readonly #socketLimits: SocketLimits;
  readonly #timeouts: TimeoutQueue;
  readonly #sockets = new Set<UwsSocket>();
  #listenSocket: us_listen_socket | undefined;
  #connections = 0;
  readonly #head = new HeadReader();

  constructor(uws: Uws, options: HttpServerOptions, handlers: HttpHandlers) {
    this.#uws = uws;
    this.#options = options;
    this.exchanges = new OpenExchanges(options.drainWindowMs);
    this.guard = new GuardedHandlers(handlers, options, machineTime.monotonicMs);
    this.#timeouts = new TimeoutQueue(machineTime, timeoutSlackMs(options.bodyTimeoutMs));
    const unsent = new PeerBytes(options.unsentBytesMax);
    const hold = (bytes: number): boolean => {
      const isRoom = unsent.hold(bytes);
      if (isRoom) this.#timeouts.after(HELD_MS_MAX, () => unsent.release(bytes));
      return isRoom;
    };
    this.#socketLimits = { ...options, unsent, hold };
    this.#anchor = new CorkAnchor(uws);
    this.uncorked = this.#anchor.run;
    this.#app = uws.App();
    this.#app.filter((res, change) => this.#connected(res, Number(change)));
    this.#app.ws<SocketData>("/*", this.#behavior());
    this.#app.any("/*", (res, req) => this.#requested(res, req));
  }

  /** Returns whether the server listens now. */
  listen(): boolean {
    const { hostname, port, portShared = false } = this.#options;
    // The library has this overload (host, port, options); its declarations lack it.
    const listen = this.#app.listen.bind(this.#app) as unknown as (
      host: string,
      port: number,
      options: number,
      listening: (socket: us_listen_socket | false) => void,
    ) => void;
    listen(hostname, port, portShared ? SHARED_PORT : EXCLUSIVE_PORT, (socket) => {
      if (socket === false) return;
      this.#listenSocket = socket;
      this.port = this.#uws.us_socket_local_port(socket);
    });
    return this.#listenSocket !== undefined;
  }

  /** Resolves once upgrades can be accepted. */
  ready(): Promise<void> {
    return this.#anchor.open();
  }

  async stop(): Promise<void> {
    const drained = this.exchanges.drain(() => this.#connections);
    if (this.#listenSocket !== undefined) this.#uws.us_listen_socket_close(this.#listenSocket);
    const flush = this.#sockets.size > 0;
    for (const socket of this.#sockets) socket.close(CLOSE_STOPPING, "Server is stopping");
    await drained;
    if (flush) await new Promise((resolve) => setTimeout(resolve, FLUSH_MS));
    this.#timeouts.close();
    this.#anchor.close();
    this.#app.close();
  }

  startBodyTimeout(exchange: UwsExchange): () => void {
    return this.#timeouts.after(this.#options.bodyTimeoutMs, () =>
      exchange.refuse(textResponse(408, "Request timeout"), "close"),
    );
  }

  #connected(res: UwsResponse, change: number): void {
    this.#connections += change;
    if (change > 0 && this.#connections > this.#options.connectionsMax) res.close();
  }

  #requested(res: UwsResponse, req: UwsRequest): void {
    const request = this.#head.read(res, req);
    const exchange = new UwsExchange(this, request, res);
    if (!this.exchanges.admit()) return exchange.refuse(STOPPING, "close");
    if (this.#head.bytes > this.#options.headerBytesMax) {
      return exchange.refuse(textResponse(431, "Request header fields too large"), "close");
    }
    const framing = checkHead(request);
    if (framing._tag === "Malformed")
      return exchange.refuse(textResponse(400, framing.text), "close");
    if (framing._tag === "None") return exchange.start();
    const limit = this.guard.limitBody(request);
    if (limit === undefined) return exchange.fail();
    if (framing._tag === "Chunked") return exchange.readBody(limit, undefined);
    if (framing.bytes > limit) return exchange.refuseBody(bodyTooLarge(limit), "linger");
    if (framing.bytes === 0) return exchange.start();
    exchange.readBody(limit, framing.bytes);
  }

  #behavior() {
    const { messageBytesMax, socketIdleMs = SOCKET_IDLE_MS } = this.#options;
    return {
      // permessage-deflate costs a window of memory for each socket and CPU for each frame, and
      // saves little on a small frame of JSON.
      compression: this.#uws.DISABLED,
      maxPayloadLength: Math.min(PAYLOAD_BYTES_MAX, messageBytesMax * PAYLOAD_FACTOR),
      // 0: no limit. The library would drop frames over its limit, even the close frame. UwsSocket
      // enforces ours.
      maxBackpressure: 0,
      idleTimeout: Math.max(SOCKET_IDLE_S_MIN, Math.ceil(socketIdleMs / 1000)),
      sendPingsAutomatically: true,
      upgrade: (res: UwsResponse, req: UwsRequest, context: us_socket_context_t) =>
        this.#upgrade(res, req, context),
      open: (ws: WebSocket<SocketData>) => {
        const socket = socketOf(ws);
        this.#sockets.add(socket);
        socket.opened(ws);
      },
      message: (ws: WebSocket<SocketData>, message: ArrayBuffer, binary: boolean) =>
        socketOf(ws).received(message, binary),
      // The library answers pings itself.
      ping: (ws: WebSocket<SocketData>, message: ArrayBuffer) =>
        socketOf(ws).pinged(message.byteLength),
      close: (ws: WebSocket<SocketData>, code: number, message: ArrayBuffer) => {
        const socket = socketOf(ws);
        this.#sockets.delete(socket);
        this.#connections -= 1; // invariant 1
        socket.closed(code, message);
      },
    };
  }

  #upgrade(res: UwsResponse, req: UwsRequest, context: us_socket_context_t): void {
    const request = this.#head.read(res, req);
    const sound = handshake(request.method, request.headers)._tag === "WebSocket";
    const small = this.#head.bytes <= this.#options.headerBytesMax;
    // All other requests yield to `any`, which refuses them or serves them as plain HTTP.
    if (!sound || !small || !namesResource(request) || this.exchanges.stopping) {
      req.setYield(true);
      return;
    }
    this.exchanges.started();
    const upgrade = new UwsUpgrade(this, request, res, context, this.#socketLimits);
    upgrade.decide();
  }
}

/**
 * The library copies the user data onto the socket object, where it can still be read after the
 * close. `getUserData` throws then.
 */
const socketOf = (ws: WebSocket<SocketData>): UwsSocket => (ws as unknown as SocketData).socket;

const open = (
  uws: Uws,
  options: HttpServerOptions,
  handlers: HttpHandlers,
): Effect.Effect<Server, ListenFailed, Scope.Scope> =>
  Effect.suspend(() => {
    const server = new Server(uws, options, handlers);
    return server.listen()
      ? Effect.as(
          Effect.promise(() => server.ready()),
          server,
        )
      : Effect.flip(explainListen(options));
  });

/** Tests pass another `load`. Fails with `UwsUnavailable` if the library cannot be loaded. */
export const layer = (load = loadUws): Layer.Layer<HttpServer, UwsUnavailable> =>
  Layer.effect(
    HttpServer,
    Effect.suspend(() => {
      const uws = load();
      return uws instanceof UwsUnavailable ? Effect.fail(uws) : Effect.succeed(makeUwsServer(uws));
    }),
  );
