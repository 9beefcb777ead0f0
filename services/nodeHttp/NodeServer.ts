/**
 * The HttpServer port on node:http and ws: listens, reads heads, refuses invalid requests, and
 * passes requests to NodeExchange.ts and sockets to NodeSocket.ts. It runs wherever Node runs; the
 * gateway uses it if the native uWebSockets.js cannot be loaded.
 *
 * node:http enforces the size and time of a head itself (431, 408). Its clock for a body starts
 * with the head, so a body may take `bodyTimeoutMs` plus what its head left of `headerTimeoutMs`.
 *
 * `OpenExchanges` counts the exchanges and ends them when the server stops.
 *
 * 1. Unanswered requests of a connection are bounded. node:http reads on before it has answered, so
 *    a connection with `PIPELINED_MAX` unanswered requests is cut. So is one that requests an
 *    upgrade behind an unanswered request, because the two answers would mix.
 */
import * as Effect from "effect/Effect";
import * as Layer from "effect/Layer";
import type * as Scope from "effect/Scope";
import {
  createServer,
  type IncomingMessage,
  type Server,
  type ServerOptions,
  type ServerResponse,
} from "node:http";
import { Server as NetServer, type AddressInfo, type ListenOptions, type Socket } from "node:net";
import type { Duplex } from "node:stream";
import {
  HttpServer,
  SOCKET_IDLE_MS,
  type HttpHandlers,
  type HttpRequest,
  type HttpResponse,
  type HttpServerOptions,
  type HttpServerShape,
  type ListenFailed,
} from "../../core/http/HttpServer.ts";
import { GuardedHandlers } from "../../core/http/GuardedHandlers.ts";
import {
  addHeader,
  badHandshake,
  checkHead,
  emptyHeaders,
  handshake,
  namesResource,
} from "../../core/http/requestHead.ts";
import { bodyTooLarge, textResponse } from "../../core/http/responseHead.ts";
import { TimeoutQueue, timeoutSlackMs } from "../../core/time/TimeoutQueue.ts";
import { listenFailed } from "../http/explainListen.ts";
import { OpenExchanges, STOPPING } from "../http/OpenExchanges.ts";
import { machineTime } from "../node/MachineTime.ts";
import { NodeExchange, type ExchangeOwner } from "./NodeExchange.ts";
import { NodeUpgrades } from "./NodeUpgrades.ts";

export const makeNodeServer = (): HttpServerShape => ({
  name: "node:http",
  listen: Effect.fnUntraced(function* (options, handlers) {
    const server = yield* Effect.acquireRelease(open(options, handlers), (opened) =>
      Effect.promise(() => opened.stop()),
    );
    return { port: server.port };
  }),
});

// More than the 60 s for which load balancers keep idle connections. If this side closed first, a
// request could meet a connection that is being closed.
const KEEP_ALIVE_MS = 65_000;
// Node supports `reusePort` from 22.12 and 23.1 on; older versions ignore it.
const [major = 0, minor = 0] = process.versions.node.split(".").map(Number);
const canSharePort = major > 23 || (major === 23 && minor >= 1) || (major === 22 && minor >= 12);
// Clients hardly pipeline, and each request may hold a body of the largest size.
const PIPELINED_MAX = 16;

class Listener implements ExchangeOwner {
  readonly guard: GuardedHandlers;
  readonly exchanges: OpenExchanges;
  readonly #server: Server;
  readonly #options: HttpServerOptions;
  readonly #upgrades: NodeUpgrades;
  readonly #timeouts: TimeoutQueue;
  #connections = 0;
  /** Unanswered requests by connection (invariant 1). */
  readonly #unanswered = new WeakMap<Duplex, Set<NodeExchange>>();

  constructor(options: HttpServerOptions, handlers: HttpHandlers) {
    this.#options = options;
    this.exchanges = new OpenExchanges(options.drainWindowMs);
    this.guard = new GuardedHandlers(handlers, options, machineTime.monotonicMs);
    // The declarations are those of a Node without `shouldUpgradeCallback`, which ignores it.
    const settings: ServerOptions & { shouldUpgradeCallback: (req: IncomingMessage) => boolean } = {
      shouldUpgradeCallback: (req) => {
        if (this.#unanswered.get(req.socket)!.size > 0) return true; // ended there: invariant 1
        const { method, headers } = readHead(req);
        return handshake(method, headers)._tag !== "None";
      },
      maxHeaderSize: options.headerBytesMax,
      headersTimeout: options.headerTimeoutMs,
      requestTimeout: options.headerTimeoutMs + options.bodyTimeoutMs,
      connectionsCheckingInterval: timeoutSlackMs(
        Math.min(options.headerTimeoutMs, options.bodyTimeoutMs),
      ),
      keepAliveTimeout: KEEP_ALIVE_MS,
    };
    this.#server = createServer(settings);
    this.#server.maxConnections = options.connectionsMax;
    // The size of the head bounds the count. With its default, node:http would drop further
    // headers.
    this.#server.maxHeadersCount = 0;
    const { socketIdleMs = SOCKET_IDLE_MS } = options;
    this.#timeouts = new TimeoutQueue(machineTime, timeoutSlackMs(socketIdleMs));
    this.#upgrades = new NodeUpgrades(options, this, this.#timeouts);
    this.#server.on("connection", (socket: Socket) => {
      // `serveAsPlain` passes a connection on again.
      if (this.#unanswered.has(socket)) return;
      const unanswered = new Set<NodeExchange>();
      this.#unanswered.set(socket, unanswered);
      this.#connections += 1;
      socket.once("close", () => {
        this.#connections -= 1;
        for (const exchange of unanswered) exchange.disconnected();
      });
    });
    this.#server.on("request", (req, res) => this.#requested(req, res, false));
    this.#server.on("checkContinue", (req, res) => this.#requested(req, res, true));
    // Expectations other than 100-continue are ignored, as by the other adapter.
    this.#server.on("checkExpectation", (req, res) => this.#requested(req, res, false));
    this.#server.on("upgrade", (req, socket, head) => this.#upgrade(req, socket, head));
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  /** Resolves with the error code if the server cannot listen, else with undefined. */
  listen(): Promise<string | undefined> {
    return new Promise((resolve) => {
      const failed = (cause: NodeJS.ErrnoException): void => resolve(cause.code ?? "unknown");
      const { hostname: host, port, portShared: reusePort = false } = this.#options;
      if (reusePort && !canSharePort) return resolve("ENOTSUP");
      this.#server.once("error", failed);
      // The declarations are those of a Node without `reusePort`.
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
    const drained = this.exchanges.drain(() => this.#connections);
    // `close` of node:http would also cut idle connections.
    const closed = new Promise<void>((resolve) =>
      NetServer.prototype.close.call(this.#server, () => resolve()),
    );
    await Promise.all([drained, this.#upgrades.stop()]);
    this.#server.closeAllConnections();
    this.#upgrades.cutUndecided();
    this.#timeouts.close();
    await closed;
  }

  #requested(req: IncomingMessage, res: ServerResponse, expects: boolean): void {
    const { socket } = req;
    const unanswered = this.#unanswered.get(socket)!;
    if (unanswered.size >= PIPELINED_MAX) return void socket.destroy();
    const request = readHead(req);
    const admitted = this.exchanges.admit();
    const exchange = new NodeExchange(this, request, req, res);
    unanswered.add(exchange);
    res.once("close", () => unanswered.delete(exchange));
    if (!admitted) return exchange.refuse(STOPPING, "linger");
    const framing = checkHead(request);
    if (framing._tag === "Malformed")
      return exchange.refuse(textResponse(400, framing.text), "close");
    if (framing._tag === "None") return exchange.start();
    const limit = this.guard.limitBody(request);
    if (limit === undefined) return exchange.fail();
    const declared = framing._tag === "Length" ? framing.bytes : undefined;
    if (declared !== undefined && declared > limit) {
      return exchange.refuseBody(bodyTooLarge(limit));
    }
    if (expects) res.writeContinue();
    exchange.readBody(limit, declared);
  }

  #upgrade(req: IncomingMessage, socket: Duplex, head: Buffer): void {
    if (this.#unanswered.get(socket)!.size > 0) return void socket.destroy(); // invariant 1
    const request = readHead(req);
    const asked = handshake(request.method, request.headers);
    if (asked._tag === "None") return this.#serveAsPlain(req, socket, head);
    const refuse = (response: HttpResponse): void =>
      this.#upgrades.refuse(req, request, socket as Socket, response);
    if (this.exchanges.stopping) return refuse(STOPPING);
    if (asked._tag === "Malformed") return refuse(textResponse(400, badHandshake(asked.why)));
    if (!namesResource(request)) return refuse(textResponse(400, "Bad request"));
    // RFC 6455, section 4.2.1; uWebSockets.js answers 1.0 with 505.
    if (req.httpVersion !== "1.1") return refuse(textResponse(400, badHandshake("HTTP/1.1")));
    this.#upgrades.decide(req, request, socket as Socket, head);
  }

  /**
   * Serves a request that offers another protocol as if it had not (Java's client offers `h2c` with
   * each request). node:http before 24.9 has detached the connection, so it receives the connection
   * again, with a head without the offer. A newer one asks first (`shouldUpgradeCallback`).
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
