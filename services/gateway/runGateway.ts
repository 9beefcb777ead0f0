/**
 * Runs a gateway, which listens and serves until the scope closes. `agents gateway`, `agents dev`
 * and tests use it with different layers.
 */
import * as Effect from "effect/Effect";
import type { CallClient } from "../../core/call/CallClient.ts";
import { HttpServer, type HttpServerOptions } from "../../core/http/HttpServer.ts";
import { hostNameOf, isLoopbackHost, type ServedHosts } from "../../core/http/servedHosts.ts";
import type { AgentMetrics } from "../../core/telemetry/AgentMetrics.ts";
import type { RequestLines } from "../../core/telemetry/RequestLog.ts";
import type { Subjects } from "../../schemas/Subjects.ts";
import { Gateway } from "./Gateway.ts";
import { GATEWAY_BOUNDS_DEFAULT } from "./GatewayConfig.ts";
import { gatewayServices, type GatewayModule } from "./GatewayServices.ts";
import type { LateSockets } from "./SocketKeeper.ts";

/** Time limits for slow peers, size limits for large messages, and the most connections. */
export const HTTP_BOUNDS_DEFAULT = {
  headerTimeoutMs: 10_000,
  bodyTimeoutMs: 30_000,
  headerBytesMax: 16 * 1024,
  connectionsMax: 100_000,
  socketBufferBytesMax: GATEWAY_BOUNDS_DEFAULT.socketBufferBytesMax,
  /** 32 sockets at their limit: a quarter of the memory that `deploy/kubernetes` allows. */
  unsentBytesMax: 256 * 1024 * 1024,
  /** Ten of the largest webhooks. Bodies of common sizes are not those that are refused. */
  bodiesBytesMax: 256 * 1024 * 1024,
  /**
   * The body of a webhook that anybody may send has the same limit, for the time that JSON takes. A
   * chat's client sends its whole conversation, with the images in it, as one message.
   */
  messageBytesMax: 4 * 1024 * 1024,
} as const;

/** Access settings of the command line (`docs/guides/access.md`). */
interface GatewayAccess {
  /** Whether hosts and origins are checked always, as in `agents dev`. Default false. */
  readonly dev?: boolean | undefined;
  /** Values of `Host` that are answered in addition to the server's own. */
  readonly allowedHosts?: ReadonlyArray<string> | undefined;
  readonly allowedOrigins?: ReadonlyArray<string> | undefined;
}

export interface RunGatewayOptions {
  readonly gatewayId: string;
  readonly subjects: Subjects;
  readonly shards: number;
  readonly hostname: string;
  /** 0: a free port is chosen. */
  readonly port: number;
  readonly publicUrl?: string | undefined;
  readonly access?: GatewayAccess;
  readonly module: () => GatewayModule;
  readonly calls: CallClient;
  /** Receives the gateway's sockets before the gateway listens. */
  readonly sockets?: LateSockets;
  readonly metrics: AgentMetrics;
  readonly http?: Partial<HttpServerOptions>;
  readonly bounds?: Partial<typeof GATEWAY_BOUNDS_DEFAULT>;
  /** As in `GatewayConfig`. */
  readonly requestLines?: RequestLines | undefined;
}

/** Undefined if no setting names the served hosts: a proxy or a load balancer may be in front. */
function servedHosts(
  hostname: string,
  publicUrl: string | undefined,
  { dev = false, allowedHosts = [] }: GatewayAccess,
): ServedHosts | undefined {
  const isLoopback = isLoopbackHost(hostname);
  if (!isLoopback && !dev && allowedHosts.length === 0) return undefined;
  const own = [hostname, ...allowedHosts, ...(publicUrl === undefined ? [] : [new URL(publicUrl).host])]; // prettier-ignore
  return { names: own.flatMap((name) => hostNameOf(name) ?? []), addresses: !isLoopback };
}

export const runGateway = (options: RunGatewayOptions) =>
  Effect.gen(function* () {
    const { publicUrl, access = {} } = options;
    const hosts = servedHosts(options.hostname, publicUrl, access);
    const http = { ...HTTP_BOUNDS_DEFAULT, ...options.http };
    const services = yield* gatewayServices({
      config: {
        gatewayId: options.gatewayId,
        subjects: options.subjects,
        shards: options.shards,
        ...GATEWAY_BOUNDS_DEFAULT,
        ...options.bounds,
        socketBufferBytesMax: http.socketBufferBytesMax,
        publicUrl,
        hosts,
        sameOrigin: access.dev ?? false,
        requestLines: options.requestLines,
        allowedOrigins: access.allowedOrigins,
      },
      module: options.module,
      calls: options.calls,
      metrics: options.metrics,
    });
    options.sockets?.set(services.sockets);
    const server = yield* HttpServer;
    const gateway = yield* Gateway.make(services);
    options.metrics.connections(() => gateway.sockets.size);
    options.metrics.deliveryRecordsDropped(() => services.deliveries?.dropped() ?? 0);
    const { port } = yield* server.listen(
      { ...http, hostname: options.hostname, port: options.port },
      gateway.handlers,
    );
    return { gateway, port, server: server.name };
  });
