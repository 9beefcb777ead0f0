/**
 * A gateway in a scope: listens and serves until the scope closes. Used by `agents gateway`,
 * `agents dev` and tests, which differ only in layers.
 */
import * as Effect from "effect/Effect";
import type { CallClient } from "../../core/call/CallClient.ts";
import { HttpServer, type HttpServerOptions } from "../../core/http/HttpServer.ts";
import type { AgentMetrics } from "../../core/metrics/AgentMetrics.ts";
import type { Subjects } from "../../schemas/Subjects.ts";
import { Gateway } from "./Gateway.ts";
import { GATEWAY_BOUNDS_DEFAULT, gatewayServices, type GatewayModule } from "./GatewayServices.ts";

/** A slow peer gets this long for its head and for its body; a busy one is given up on past these many. */
export const HTTP_BOUNDS_DEFAULT = {
  headerTimeoutMs: 10_000,
  bodyTimeoutMs: 30_000,
  headerBytesMax: 16 * 1024,
  connectionsMax: 100_000,
  socketBufferBytesMax: GATEWAY_BOUNDS_DEFAULT.socketBufferBytesMax,
  messageBytesMax: 1024 * 1024,
} as const;

export interface RunGatewayOptions {
  readonly gatewayId: string;
  readonly subjects: Subjects;
  readonly shards: number;
  readonly hostname: string;
  /** 0: any free port. */
  readonly port: number;
  readonly publicUrl?: string;
  readonly module: () => GatewayModule;
  readonly calls: CallClient;
  readonly metrics: AgentMetrics;
  readonly http?: Partial<HttpServerOptions>;
  readonly bounds?: Partial<typeof GATEWAY_BOUNDS_DEFAULT>;
}

export const runGateway = (options: RunGatewayOptions) =>
  Effect.gen(function* () {
    const http = { ...HTTP_BOUNDS_DEFAULT, ...options.http };
    const services = yield* gatewayServices({
      config: {
        gatewayId: options.gatewayId,
        subjects: options.subjects,
        shards: options.shards,
        ...GATEWAY_BOUNDS_DEFAULT,
        ...options.bounds,
        socketBufferBytesMax: http.socketBufferBytesMax,
        ...(options.publicUrl === undefined ? {} : { publicUrl: options.publicUrl }),
      },
      module: options.module,
      calls: options.calls,
      metrics: options.metrics,
    });
    const server = yield* HttpServer;
    const gateway = yield* Gateway.make(services);
    options.metrics.connections(() => gateway.sockets.size);
    const { port } = yield* server.listen(
      {
        ...http,
        hostname: options.hostname,
        port: options.port,
      },
      gateway.handlers,
    );
    return { gateway, port, server: server.name };
  });
