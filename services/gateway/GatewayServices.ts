/**
 * The dependencies of a gateway as one record: the ports, the module and the gateway's bounds.
 * `runGateway` builds it from the context; `Gateway` and its parts (`WebhookEndpoint`,
 * `SocketTable`, `upgrade`) use it.
 */
import * as Effect from "effect/Effect";
import * as Option from "effect/Option";
import type { FetchContext } from "../../core/namespace/routeAgentRequest.ts";
import { Blobs, type BlobsShape } from "../../core/journal/Blobs.ts";
import { DeliveryLog, type DeliveryLogShape } from "../../core/delivery/DeliveryLog.ts";
import { Bus, type BusShape } from "../../core/bus/Bus.ts";
import type { CallClient } from "../../core/call/CallClient.ts";
import { Inbox, type InboxShape } from "../../core/inbox/Inbox.ts";
import { Leases, type LeasesShape } from "../../core/lease/Leases.ts";
import { Outgoing, type OutgoingShape } from "../../core/outgoing/Outgoing.ts";
import { Log, type LogShape } from "../../core/telemetry/Log.ts";
import type { AgentMetrics } from "../../core/telemetry/AgentMetrics.ts";
import { RequestLog, type RequestLines } from "../../core/telemetry/RequestLog.ts";
import { Tracing, type TracingShape } from "../../core/telemetry/Tracing.ts";
import { Time, type TimeShape } from "../../core/time/Time.ts";
import type { RouteTable } from "../../core/webhook/RouteTable.ts";
import { Access, type AccessConfig, type AccessModule } from "./Access.ts";
import { RateLimit, type Rate } from "./RateLimit.ts";
import {
  BYTES_PER_SECOND,
  FRAMES_PER_SECOND,
  socketRate,
  type SocketRateLimits,
} from "./SocketRates.ts";
import type { Subjects } from "../../schemas/Subjects.ts";

export interface GatewayConfig extends AccessConfig {
  /** Unique among gateways for the life of the process. Part of subjects, leases and log lines. */
  readonly gatewayId: string;
  readonly subjects: Subjects;
  /** The number of shards that the installation was provisioned with. */
  readonly shards: number;
  /** Largest body, in bytes, of a request that no webhook route matches. */
  readonly bodyBytesMax: number;
  /** How long an HTTP request to an agent may take, including moves of the agent. */
  readonly requestDeadlineMs: number;
  /** Webhooks that wait for their answer or their store. At this number, callers receive 429. */
  readonly webhooksWaitingMax: number;
  /**
   * Stores every webhook in the inbox before its agent receives it. A webhook whose turn ends the
   * process is then delivered again without a repetition by its sender.
   */
  readonly storeFirst: boolean;
  /** Requests, webhooks and upgrades of one address. Undefined: no limit. */
  readonly addressRate?: Rate;
  /** Verified webhooks and upgrades of one agent. Undefined: no limit. */
  readonly entityRate?: Rate;
  /**
   * What one socket may send. All sockets of one address may send four times as much. A socket that
   * exceeds a limit is closed with 1013.
   */
  readonly socketRates: SocketRateLimits;
  /**
   * Unsent bytes past which a socket is closed with 1013, including frames that wait for the
   * upgrade to finish.
   */
  readonly socketBufferBytesMax: number;
  /** Which requests have a line in the log. Default `failed`. */
  readonly requestLines?: RequestLines | undefined;
  /** Number of proxies in front of the gateway whose `X-Forwarded-For` is trusted. */
  readonly trustedProxies: number;
}

export const GATEWAY_BOUNDS_DEFAULT: Pick<
  GatewayConfig,
  | "bodyBytesMax"
  | "requestDeadlineMs"
  | "webhooksWaitingMax"
  | "storeFirst"
  | "trustedProxies"
  | "socketRates"
  | "socketBufferBytesMax"
  | "addressRate"
  | "entityRate"
> = {
  trustedProxies: 0,
  storeFirst: false,
  bodyBytesMax: 25 * 1024 * 1024,
  requestDeadlineMs: 60_000,
  /** At 10,000 webhooks a second, two seconds of backlog. */
  webhooksWaitingMax: 20_000,
  socketRates: {
    frames: socketRate(FRAMES_PER_SECOND),
    bytes: socketRate(BYTES_PER_SECOND),
  },
  socketBufferBytesMax: 8 * 1024 * 1024,
};

/** What a gateway uses of the user's module. */
export interface GatewayModule extends AccessModule {
  readonly routes: RouteTable;
  readonly fetch?: (
    request: Request,
    env: Readonly<Record<string, unknown>>,
    context: FetchContext,
  ) => Response | Promise<Response>;
}

export interface GatewayServices {
  readonly access: Access;
  /** `GatewayConfig.entityRate`, shared by webhooks and upgrades. */
  readonly entityLimit?: RateLimit | undefined;
  readonly config: GatewayConfig;
  /** A function, because `agents dev` replaces the module while the gateway runs. */
  readonly module: () => GatewayModule;
  readonly calls: CallClient;
  readonly metrics: Pick<AgentMetrics, "webhooks">;
  /** Absent: no request has a line. */
  readonly requests?: RequestLog;
  /** Absent: deliveries are not recorded. */
  readonly deliveries?: DeliveryLogShape;
  /** Checks links of approvals. Absent: none is answered. */
  readonly hmacSha256?: OutgoingShape["hmacSha256"];
  /** Absent: nothing is traced. */
  readonly tracing?: TracingShape;
  readonly inbox: InboxShape;
  readonly leases: LeasesShape;
  readonly blobs: BlobsShape;
  readonly bus: BusShape;
  readonly time: TimeShape;
  readonly log: LogShape;
}

/** Adds the ports of the context to what the process decides itself. */
export const gatewayServices = (
  own: Pick<GatewayServices, "config" | "module" | "calls" | "metrics">,
) =>
  Effect.gen(function* () {
    const time = yield* Time;
    const { entityRate, requestLines } = own.config;
    const log = yield* Log;
    const services: GatewayServices = {
      ...own,
      access: new Access({ ...own, log }),
      entityLimit: entityRate === undefined ? undefined : new RateLimit(entityRate, time),
      inbox: yield* Inbox,
      leases: yield* Leases,
      blobs: yield* Blobs,
      bus: yield* Bus,
      requests: new RequestLog(log, time, requestLines),
      ...Option.match(yield* Effect.serviceOption(DeliveryLog), {
        onNone: () => ({}),
        onSome: (deliveries) => ({ deliveries }),
      }),
      ...Option.match(yield* Effect.serviceOption(Outgoing), {
        onNone: () => ({}),
        onSome: ({ hmacSha256 }) => ({ hmacSha256 }),
      }),
      ...Option.match(yield* Effect.serviceOption(Tracing), {
        onNone: () => ({}),
        onSome: (tracing) => ({ tracing }),
      }),
      time,
      log,
    };
    return services;
  });
