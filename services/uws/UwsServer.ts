/**
 * The HttpServer port on uWebSockets.js: listens, reads heads, refuses what may not pass, and hands
 * requests to UwsExchange.ts and sockets to UwsSocket.ts. The gateway feeds it handlers.
 *
 * What the library decides by itself, and this adapter can't: a head must arrive, and an idle
 * kept-alive connection must ask again, within 10 s (8 to 12, its clock ticks in 4 s), so a shorter
 * `headerTimeoutMs` is not kept; a body must keep up 16 KiB/s; at most 98 header fields, their names
 * of letters, digits and hyphens (others are waited on as if cut short), their values shorn
 * of bytes above 127 at both ends; HTTP/1.0 is answered 505,
 * chunk extensions and trailers 4xx or 5xx; a request pipelined behind one that is not answered yet
 * cuts the connection.
 *
 * 1. The number of open exchanges is exact: stopping waits for it to reach zero.
 * 2. An upgraded connection leaves the library's connection count without an event, so it is
 *    counted here until its socket closes.
 * 3. A server that stops still answers what comes on connections that were open, and ends each with its
 *    answer, until nothing has come for a moment: their callers can't know yet, and would lose it.
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
import { TimeoutQueue, sweepIntervalMs } from "../../core/http/TimeoutQueue.ts";
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
import {
  badHandshake,
  bodyFraming,
  dropOffer,
  handshake,
  isOriginTarget,
} from "../../core/http/requestHead.ts";
import { explainListen } from "../http/explainListen.ts";
import { DrainWindow } from "../http/DrainWindow.ts";
import { CorkAnchor } from "./CorkAnchor.ts";
import { HeadReader } from "./HeadReader.ts";
import { UwsExchange, type ExchangeOwner } from "./UwsExchange.ts";
import { UwsSocket, type SocketData } from "./UwsSocket.ts";
import { UwsUpgrade } from "./UwsUpgrade.ts";
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

// How long requests in flight may take to be answered once the server stops: above the longest
// deadline that a webhook's route has (9.5 s).
const DRAIN_MS = 10_000;

// What close frames get to leave the machine before connections are cut. They are in the kernel
// already unless the peer reads slowly; the library has no event for the rest.
const FLUSH_MS = 100;

// The library pings 8 s before a socket's idle time is over, in ticks of 4 s.
const SOCKET_IDLE_S_MIN = 12;

// The library cuts the connection at its limit; this one stands above ours so that messages a
// little too large get an orderly 1009. It bounds what one socket can make the process hold.
const PAYLOAD_FACTOR = 2;
const PAYLOAD_BYTES_MAX = 2 ** 31 - 1;

// LIBUS_LISTEN_EXCLUSIVE_PORT, which the library's declarations lack. Without it a second server
// could share the port, each getting some of the connections.
const EXCLUSIVE_PORT = 1;
// LIBUS_LISTEN_DEFAULT: just that.
const SHARED_PORT = 0;

class Server implements ExchangeOwner {
  port = 0;
  stopping = false;
  readonly #uws: Uws;
  readonly #app: TemplatedApp;
  readonly #anchor: CorkAnchor;
  readonly #options: HttpServerOptions;
  readonly guard: GuardedHandlers;
  readonly #bodies: TimeoutQueue<UwsExchange>;
  readonly #sweeper: NodeJS.Timeout;
  readonly #sockets = new Set<UwsSocket>();
  #listenSocket: us_listen_socket | undefined;
  #connections = 0;
  readonly #lull: DrainWindow;
  #refusing = false;
  #exchanges = 0;
  #drained: (() => void) | undefined;
  readonly #head = new HeadReader();

  constructor(uws: Uws, options: HttpServerOptions, handlers: HttpHandlers) {
    this.#uws = uws;
    this.#options = options;
    this.#lull = new DrainWindow(options.drainWindowMs);
    this.guard = new GuardedHandlers(handlers);
    this.#bodies = new TimeoutQueue(options.bodyTimeoutMs, (exchange) =>
      exchange.refuse(408, "Request timeout", "close"),
    );
    const sweep = () => this.#bodies.sweep(performance.now());
    this.#sweeper = setInterval(sweep, sweepIntervalMs(options.bodyTimeoutMs)).unref();
    this.#anchor = new CorkAnchor(uws);
    this.#app = uws.App();
    this.#app.filter((res, change) => this.#connected(res, Number(change)));
    this.#app.ws<SocketData>("/*", this.#behavior());
    this.#app.any("/*", (res, req) => this.#requested(res, req));
  }

  /** Whether it now listens. */
  listen(): boolean {
    const { hostname, port, portShared = false } = this.#options;
    // The library's declarations lack this overload (host, port, options), its code has it.
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
    if (this.#listenSocket === undefined) clearInterval(this.#sweeper);
    return this.#listenSocket !== undefined;
  }

  /** Before the first upgrade. */
  ready(): Promise<void> {
    return this.#anchor.open();
  }

  async stop(): Promise<void> {
    this.stopping = true;
    if (this.#listenSocket !== undefined) this.#uws.us_listen_socket_close(this.#listenSocket);
    const flush = this.#sockets.size > 0;
    for (const socket of this.#sockets) socket.close(CLOSE_STOPPING, "Server is stopping");
    // Invariant 3.
    await this.#lull.wait(() => this.#connections);
    this.#refusing = true;
    const drained = new Promise<void>((resolve) => (this.#drained = resolve));
    if (this.#exchanges > 0) await Promise.race([drained, delay(DRAIN_MS)]);
    if (flush) await delay(FLUSH_MS);
    clearInterval(this.#sweeper);
    this.#anchor.close();
    this.#app.close();
  }

  // Invariant 1: each exchange and each upgrade calls this once.
  finished(): void {
    this.#exchanges -= 1;
    if (this.#exchanges === 0) this.#drained?.();
  }

  bodyStarted(exchange: UwsExchange): void {
    this.#bodies.add(exchange, performance.now());
  }

  bodyEnded(exchange: UwsExchange): void {
    this.#bodies.remove(exchange);
  }

  #connected(res: UwsResponse, change: number): void {
    this.#connections += change;
    if (change > 0 && this.#connections > this.#options.connectionsMax) res.close();
  }

  #requested(res: UwsResponse, req: UwsRequest): void {
    const request = this.#head.read(res, req);
    const exchange = new UwsExchange(this, request, res);
    this.#exchanges += 1;
    if (this.#refusing) return exchange.refuse(503, "Server is stopping", "close");
    if (this.stopping) this.#lull.requested();
    if (this.#head.bytes > this.#options.headerBytesMax) {
      return exchange.refuse(431, "Request header fields too large", "close");
    }
    if (!isOriginTarget(request.target)) return exchange.refuse(400, "Bad request", "close");
    const framing = bodyFraming(request.headers);
    if (framing._tag === "Malformed") return exchange.refuse(400, "Bad request", "close");
    const asked = handshake(request.method, request.headers);
    if (asked._tag === "Malformed") return exchange.refuse(400, badHandshake(asked.why), "close");
    dropOffer(request.headers);
    if (framing._tag === "None") return exchange.start();
    const limit = this.guard.limitBody(request);
    if (limit === undefined) return exchange.fail();
    if (framing._tag === "Chunked") return exchange.readBody(limit, undefined);
    if (framing.bytes > limit) return exchange.refuse(413, "Content too large", "linger");
    if (framing.bytes === 0) return exchange.start();
    exchange.readBody(limit, framing.bytes);
  }

  #behavior() {
    const { messageBytesMax, socketIdleMs = SOCKET_IDLE_MS } = this.#options;
    return {
      // No permessage-deflate: it costs a window of memory per socket and the CPU of every frame,
      // and a small frame of JSON gains little.
      compression: this.#uws.DISABLED,
      maxPayloadLength: Math.min(PAYLOAD_BYTES_MAX, messageBytesMax * PAYLOAD_FACTOR),
      // 0: no limit of the library's, which would drop frames in the middle and even the close
      // frame; UwsSocket keeps the limit.
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
      // The library has answered it.
      ping: (ws: WebSocket<SocketData>, message: ArrayBuffer) =>
        socketOf(ws).pinged(message.byteLength),
      close: (ws: WebSocket<SocketData>, code: number, message: ArrayBuffer) => {
        const socket = socketOf(ws);
        this.#sockets.delete(socket);
        this.#connections -= 1; // invariant 2
        socket.closed(code, message);
      },
    };
  }

  #upgrade(res: UwsResponse, req: UwsRequest, context: us_socket_context_t): void {
    const request = this.#head.read(res, req);
    const sound = handshake(request.method, request.headers)._tag === "WebSocket";
    const small = this.#head.bytes <= this.#options.headerBytesMax;
    // Anything odd is left to the ordinary route, which refuses it or serves it as plain HTTP.
    if (!sound || !small || !isOriginTarget(request.target) || this.stopping) {
      req.setYield(true);
      return;
    }
    this.#exchanges += 1;
    const upgrade = new UwsUpgrade(this, request, res, context, this.#options, this.#anchor);
    upgrade.decide();
  }
}

/** What `upgrade` was given is on the socket object itself; getUserData throws once it is closed. */
const socketOf = (ws: WebSocket<SocketData>): UwsSocket => (ws as unknown as SocketData).socket;

const delay = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

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

/** `load` is another than the default only in tests. */
export const layer = (load = loadUws): Layer.Layer<HttpServer, UwsUnavailable> =>
  Layer.effect(
    HttpServer,
    Effect.suspend(() => {
      const uws = load();
      return uws instanceof UwsUnavailable ? Effect.fail(uws) : Effect.succeed(makeUwsServer(uws));
    }),
  );
