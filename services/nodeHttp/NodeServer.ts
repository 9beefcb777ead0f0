/**
 * The HttpServer port on node:http and ws: listens, reads heads, refuses what may not pass, and
 * hands requests to NodeExchange.ts and sockets to NodeSocket.ts. It runs wherever Node runs; the
 * gateway uses it where the native uWebSockets.js can't load.
 *
 * node:http enforces the head's size and time itself (431, 408). Its clock for a body starts with
 * the head, so a body may take `bodyTimeoutMs` plus what its head left of `headerTimeoutMs`.
 *
 * 1. The number of open exchanges is exact: stopping waits for it to reach zero.
 * 2. A server that stops still answers what comes on connections that were open, and ends each with its
 *    answer, until nothing has come for a moment: their callers can't know yet, and would lose it.
 * 3. What a connection waits for is bounded: node:http reads on while nothing is answered, so one that has
 *    `PIPELINED_MAX` requests unanswered is cut. So is one that asks to upgrade behind an unanswered request, as the two
 *    answers would mix.
 */
import * as Effect from "effect/Effect";
import * as Layer from "effect/Layer";
import type * as Scope from "effect/Scope";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { Server as NetServer, type AddressInfo, type ListenOptions, type Socket } from "node:net";
import type { Duplex } from "node:stream";
import {
  HttpServer,
  type HttpHandlers,
  type HttpRequest,
  type HttpResponse,
  type HttpServerOptions,
  type HttpServerShape,
  type ListenFailed,
} from "../../core/http/HttpServer.ts";
import { GuardedHandlers } from "../../core/http/GuardedHandlers.ts";
import { TimeoutQueue, sweepIntervalMs } from "../../core/http/TimeoutQueue.ts";
import {
  addHeader,
  badHandshake,
  bodyFraming,
  dropOffer,
  emptyHeaders,
  handshake,
  isOriginTarget,
} from "../../core/http/requestHead.ts";
import { textResponse } from "../../core/http/responseHead.ts";
import { DrainWindow } from "../http/DrainWindow.ts";
import { NodeExchange, type ExchangeOwner } from "./NodeExchange.ts";
import { NodeUpgrades } from "./NodeUpgrades.ts";
import { listenFailed } from "../http/explainListen.ts";

export const makeNodeServer = (): HttpServerShape => ({
  name: "node:http",
  listen: Effect.fnUntraced(function* (options, handlers) {
    const server = yield* Effect.acquireRelease(open(options, handlers), (opened) =>
      Effect.promise(() => opened.stop()),
    );
    return { port: server.port };
  }),
});

// How long requests in flight may take to be answered once the server stops: above the longest
// deadline that a webhook's route has (9.5 s).
const DRAIN_MS = 10_000;
// Above the 60 s that load balancers keep idle connections for: the side that closes first should be
// theirs, or a request meets a connection that is just being closed.
const KEEP_ALIVE_MS = 65_000;
// Node takes `reusePort` from 22.12 and 23.1 on; an older one does nothing about it.
const [major = 0, minor = 0] = process.versions.node.split(".").map(Number);
const canSharePort = major > 23 || (major === 23 && minor >= 1) || (major === 22 && minor >= 12);
// What a caller that was refused in the middle of its body gets to finish sending it.
const LINGER_MS = 2_000;
// Hardly a client pipelines at all. Each may hold a body of the largest size.
const PIPELINED_MAX = 16;

class Listener implements ExchangeOwner {
  stopping = false;
  readonly #server: Server;
  readonly #options: HttpServerOptions;
  readonly guard: GuardedHandlers;
  readonly #upgrades: NodeUpgrades;
  readonly #lingering = new TimeoutQueue<NodeExchange>(LINGER_MS, (exchange) => exchange.cut());
  readonly #sweeper: NodeJS.Timeout;
  #exchanges = 0;
  #connections = 0;
  /** What is not answered yet, by connection (invariant 3). */
  readonly #unanswered = new WeakMap<Duplex, Set<NodeExchange>>();
  readonly #lull: DrainWindow;
  #refusing = false;
  #drained: (() => void) | undefined;

  constructor(options: HttpServerOptions, handlers: HttpHandlers) {
    this.#options = options;
    this.#lull = new DrainWindow(options.drainWindowMs);
    this.guard = new GuardedHandlers(handlers);
    this.#server = createServer({
      maxHeaderSize: options.headerBytesMax,
      headersTimeout: options.headerTimeoutMs,
      requestTimeout: options.headerTimeoutMs + options.bodyTimeoutMs,
      connectionsCheckingInterval: sweepIntervalMs(
        Math.min(options.headerTimeoutMs, options.bodyTimeoutMs),
      ),
      keepAliveTimeout: KEEP_ALIVE_MS,
    });
    this.#server.maxConnections = options.connectionsMax;
    // The count is bounded by the head's size; node:http would drop the headers past its default.
    this.#server.maxHeadersCount = 0;
    this.#upgrades = new NodeUpgrades(options, this);
    this.#server.on("connection", (socket: Socket) => {
      // One that was given back (`serveAsPlain`) is known.
      if (this.#unanswered.has(socket)) return;
      const unanswered = new Set<NodeExchange>();
      this.#unanswered.set(socket, unanswered);
      this.#connections += 1;
      socket.once("close", () => {
        this.#connections -= 1;
        // node:http tells the first only.
        for (const exchange of unanswered) exchange.closed();
      });
    });
    this.#server.on("request", (req, res) => this.#requested(req, res, false));
    this.#server.on("checkContinue", (req, res) => this.#requested(req, res, true));
    // Expectations other than 100-continue are ignored, as the other adapter ignores them.
    this.#server.on("checkExpectation", (req, res) => this.#requested(req, res, false));
    this.#server.on("upgrade", (req, socket, head) => this.#upgrade(req, socket, head));
    this.#sweeper = setInterval(() => this.#sweep(), sweepIntervalMs(LINGER_MS)).unref();
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  /** Succeeds with the code of the error when the address can't be had. */
  listen(): Promise<string | undefined> {
    return new Promise((resolve) => {
      const failed = (cause: NodeJS.ErrnoException): void => {
        clearInterval(this.#sweeper);
        resolve(cause.code ?? "unknown");
      };
      const { hostname: host, port, portShared: reusePort = false } = this.#options;
      if (reusePort && !canSharePort) return resolve("ENOTSUP");
      this.#server.once("error", failed);
      // The declarations are of a Node that has no `reusePort`.
      const address: ListenOptions & { reusePort: boolean } = {
        host,
        port,
        exclusive: true,
        reusePort,
      };
      this.#server.listen(address, () => {
        this.#server.off("error", failed);
        resolve(undefined);
      });
    });
  }

  async stop(): Promise<void> {
    this.stopping = true;
    // Not http's own `close`, which cuts connections that are idle at the moment.
    const closed = new Promise<void>((resolve) =>
      NetServer.prototype.close.call(this.#server, () => resolve()),
    );
    const drained = new Promise<void>((resolve) => (this.#drained = resolve));
    const sockets = this.#upgrades.stop();
    // Invariant 2.
    await this.#lull.wait(() => this.#connections);
    this.#refusing = true;
    if (this.#exchanges > 0) await within(DRAIN_MS, drained);
    await sockets;
    this.#server.closeAllConnections();
    clearInterval(this.#sweeper);
    await closed;
  }

  // Invariant 1: each exchange calls both once.
  started(): void {
    this.#exchanges += 1;
  }

  finished(): void {
    this.#exchanges -= 1;
    if (this.#exchanges === 0) this.#drained?.();
  }

  lingering(exchange: NodeExchange): void {
    this.#lingering.add(exchange, performance.now());
  }

  #sweep(): void {
    const now = performance.now();
    this.#lingering.sweep(now);
    this.#upgrades.sweep(now);
  }

  #requested(req: IncomingMessage, res: ServerResponse, expects: boolean): void {
    const { socket } = req;
    const unanswered = this.#unanswered.get(socket)!;
    if (unanswered.size >= PIPELINED_MAX) return void socket.destroy();
    const request = readHead(req);
    this.started();
    const exchange = new NodeExchange(this, request, req, res);
    unanswered.add(exchange);
    res.once("close", () => unanswered.delete(exchange));
    if (this.#refusing) return exchange.refuse(503, "Server is stopping", "linger");
    if (this.stopping) this.#lull.requested();
    if (!isOriginTarget(request.target)) return exchange.refuse(400, "Bad request", "close");
    const framing = bodyFraming(request.headers);
    if (framing._tag === "Malformed") return exchange.refuse(400, "Bad request", "close");
    const asked = handshake(request.method, request.headers);
    if (asked._tag === "Malformed") return exchange.refuse(400, badHandshake(asked.why), "close");
    dropOffer(request.headers);
    if (framing._tag === "None") return exchange.start();
    const limit = this.guard.limitBody(request);
    if (limit === undefined) return exchange.fail();
    const declared = framing._tag === "Length" ? framing.bytes : undefined;
    if (declared !== undefined && declared > limit) {
      return exchange.refuse(413, "Content too large", "linger");
    }
    if (expects) res.writeContinue();
    exchange.readBody(limit, declared);
  }

  #upgrade(req: IncomingMessage, socket: Duplex, head: Buffer): void {
    if (this.#unanswered.get(socket)!.size > 0) return void socket.destroy(); // invariant 3
    const request = readHead(req);
    const asked = handshake(request.method, request.headers);
    if (asked._tag === "None") return this.#serveAsPlain(req, socket, head);
    const refuse = (response: HttpResponse): void =>
      this.#upgrades.refuse(req, request, socket as Socket, response);
    if (this.stopping) return refuse(STOPPING);
    if (asked._tag === "Malformed") return refuse(textResponse(400, badHandshake(asked.why)));
    if (!isOriginTarget(request.target)) return refuse(textResponse(400, "Bad request"));
    // RFC 6455, section 4.2.1; uWebSockets.js answers 1.0 with 505.
    if (req.httpVersion !== "1.1") return refuse(textResponse(400, badHandshake("HTTP/1.1")));
    this.#upgrades.decide(req, request, socket as Socket, head);
  }

  /**
   * A request that offers another protocol (Java's client offers `h2c` with each) is served as if it
   * did not: node:http has given its connection away, so it gets it back with the offer taken out.
   */
  #serveAsPlain(req: IncomingMessage, socket: Duplex, rest: Buffer): void {
    const lines = [`${req.method} ${req.url} HTTP/${req.httpVersion}`];
    for (let index = 0; index + 1 < req.rawHeaders.length; index += 2) {
      const name = req.rawHeaders[index] ?? "";
      if (OFFER.test(name)) continue;
      lines.push(`${name}: ${req.rawHeaders[index + 1]}`);
    }
    const head = Buffer.from(`${lines.join("\r\n")}\r\n\r\n`, "latin1");
    socket.unshift(Buffer.concat([head, rest]));
    this.#server.emit("connection", socket);
  }
}

const STOPPING = textResponse(503, "Server is stopping");

const OFFER = /^(upgrade|connection|http2-settings)$/i;

const readHead = (req: IncomingMessage): HttpRequest => {
  const headers = emptyHeaders();
  const raw = req.rawHeaders;
  for (let index = 0; index + 1 < raw.length; index += 2) {
    addHeader(headers, (raw[index] as string).toLowerCase(), raw[index + 1] as string);
  }
  return {
    method: req.method ?? "",
    target: req.url ?? "",
    headers,
    remoteAddress: (req.socket.remoteAddress ?? "").replace(MAPPED, ""),
    secure: false,
  };
};

// An IPv4 caller on a dual-stack socket.
const MAPPED = /^::ffff:(?=\d+\.)/;

const within = async (ms: number, done: Promise<void>): Promise<void> => {
  let timer: NodeJS.Timeout | undefined;
  const over = new Promise<void>((resolve) => (timer = setTimeout(resolve, ms)));
  await Promise.race([done, over]);
  clearTimeout(timer);
};

const open = (
  options: HttpServerOptions,
  handlers: HttpHandlers,
): Effect.Effect<Listener, ListenFailed, Scope.Scope> =>
  Effect.suspend(() => {
    const listener = new Listener(options, handlers);
    return Effect.flatMap(
      Effect.promise(() => listener.listen()),
      (code) =>
        code === undefined ? Effect.succeed(listener) : Effect.fail(listenFailed(options, code)),
    );
  });

export const layer: Layer.Layer<HttpServer> = Layer.sync(HttpServer, makeNodeServer);
