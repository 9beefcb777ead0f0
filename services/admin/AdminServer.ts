/**
 * The private port of a process: `/healthz` (the process runs), `/readyz` (it can do its work) and
 * `/metrics`. It serves orchestrators and Prometheus, not the internet, and binds 127.0.0.1 by
 * default.
 *
 * 1. Only GET is accepted, and no request changes anything.
 * 2. On a loopback address only loopback names are accepted as Host. A web page that rebinds its
 *    own name to 127.0.0.1 gets 421 and learns nothing.
 */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import * as Effect from "effect/Effect";
import type * as Scope from "effect/Scope";
import { ListenFailed } from "../../core/http/HttpServer.ts";
import { isLoopbackHost, servesHost } from "../../core/http/servedHosts.ts";
import { PROMETHEUS_CONTENT_TYPE } from "./PrometheusMetrics.ts";

const ADMIN_HOSTNAME_DEFAULT = "127.0.0.1";
/** A GET's head is small and local. Slower callers are broken. */
const REQUEST_TIMEOUT_MS = 5_000;
/** An orchestrator, a scraper and a few people. */
const CONNECTIONS_MAX = 64;

export type Readiness =
  /** `note` is shown below the status, e.g. how durable the broker is. */
  | { readonly ready: true; readonly note?: string }
  /** `reason` is shown to the caller, e.g. "the broker can't be reached". */
  | { readonly ready: false; readonly reason: string };

export interface AdminOptions {
  /** Default 127.0.0.1. */
  readonly hostname?: string;
  /** 0: any free port. */
  readonly port: number;
  readonly readiness: () => Readiness | Promise<Readiness>;
  /** The check behind `/healthz`. Default: a process that answers is healthy. */
  readonly health?: () => Promise<Readiness>;
  /** Metrics in Prometheus's text format. */
  readonly metrics: () => Promise<string>;
}

/** Serves until the scope closes. Fails with `ListenFailed`. */
export const serveAdmin = (
  options: AdminOptions,
): Effect.Effect<{ readonly port: number }, ListenFailed, Scope.Scope> =>
  Effect.map(
    Effect.acquireRelease(
      Effect.tryPromise({
        try: () => listen(options),
        catch: (error) => refused(options, error as NodeJS.ErrnoException),
      }),
      (server) => Effect.promise(() => close(server)),
    ),
    (server) => ({ port: (server.address() as AddressInfo).port }),
  );

function listen(options: AdminOptions): Promise<Server> {
  const hostname = options.hostname ?? ADMIN_HOSTNAME_DEFAULT;
  const server = createServer(
    { requestTimeout: REQUEST_TIMEOUT_MS, headersTimeout: REQUEST_TIMEOUT_MS },
    (request, response) => {
      answer(options, hostname, request)
        .catch(() => plain(500, "it could not be read"))
        .then((given) => send(response, given))
        .catch(() => response.destroy());
    },
  );
  server.maxConnections = CONNECTIONS_MAX;
  return new Promise((done, fail) => {
    server.once("error", fail);
    server.listen(options.port, hostname, () => done(server));
  });
}

const LOOPBACK_ONLY = { names: [], addresses: false };

interface Answer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

const plain = (
  status: number,
  text: string,
  headers: Readonly<Record<string, string>> = {},
): Answer => ({
  status,
  headers: { "content-type": "text/plain; charset=utf-8", ...headers },
  body: text + "\n",
});

async function answer(
  options: AdminOptions,
  hostname: string,
  request: IncomingMessage,
): Promise<Answer> {
  if (isLoopbackHost(hostname) && !servesHost(LOOPBACK_ONLY, request.headers.host))
    return plain(421, "Misdirected request: use 127.0.0.1 or localhost");
  // node:http leaves out the body of an answer to HEAD.
  if (request.method !== "GET" && request.method !== "HEAD")
    return plain(405, "Method not allowed", { allow: "GET, HEAD" });
  const path = (request.url ?? "/").split("?", 1)[0];
  if (path === "/healthz") {
    const state = await options.health?.();
    return state?.ready === false ? plain(503, state.reason) : plain(200, "ok");
  }
  if (path === "/readyz") {
    const state = await options.readiness();
    if (!state.ready) return plain(503, `not ready: ${state.reason}`);
    return plain(200, state.note === undefined ? "ready" : `ready\n${state.note}`);
  }
  if (path === "/metrics")
    return {
      status: 200,
      headers: { "content-type": PROMETHEUS_CONTENT_TYPE },
      body: await options.metrics(),
    };
  return plain(404, "Not found. This port serves /healthz, /readyz and /metrics");
}

function send(response: ServerResponse, { status, headers, body }: Answer): void {
  response.writeHead(status, {
    ...headers,
    "content-length": Buffer.byteLength(body),
    "cache-control": "no-store",
    "x-content-type-options": "nosniff",
  });
  response.end(body);
}

async function close(server: Server): Promise<void> {
  const closed = new Promise((done) => server.close(done));
  server.closeAllConnections();
  await closed;
}

function refused(options: AdminOptions, error: NodeJS.ErrnoException): ListenFailed {
  const where = `${options.hostname ?? ADMIN_HOSTNAME_DEFAULT}:${options.port}`;
  const what =
    error.code === "EADDRINUSE"
      ? "is in use: stop the process that uses it, or choose another port with --admin-port (0: any free port)"
      : `can't be listened on (${error.code ?? error.message}): choose another with --admin-port`;
  return new ListenFailed({ port: options.port, message: `admin port ${where} ${what}` });
}
