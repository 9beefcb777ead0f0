/**
 * Everything a gateway stands on, as one record: the ports, the module, and the gateway's bounds.
 * `runGateway` builds it from the context; `Gateway` and its parts (`WebhookEndpoint`, `SocketTable`,
 * `upgrade`) use it.
 */
import * as Effect from "effect/Effect";
import type { FetchContext } from "../../core/namespace/routeAgentRequest.ts";
import { Blobs, type BlobsShape } from "../../core/journal/Blobs.ts";
import { Bus, type BusShape } from "../../core/bus/Bus.ts";
import type { CallClient } from "../../core/call/CallClient.ts";
import { Inbox, type InboxShape } from "../../core/inbox/Inbox.ts";
import { Leases, type LeasesShape } from "../../core/lease/Leases.ts";
import { Log, type LogShape } from "../../core/telemetry/Log.ts";
import type { AgentMetrics } from "../../core/telemetry/AgentMetrics.ts";
import { Time, type TimeShape } from "../../core/time/Time.ts";
import type { RouteTable } from "../../core/webhook/RouteTable.ts";
import type { ServedHosts } from "../../core/http/servedHosts.ts";
import { Access } from "./Access.ts";
import { RateLimit, type Rate } from "./RateLimit.ts";
import {
  BYTES_PER_SECOND,
  FRAMES_PER_SECOND,
  socketRate,
  type SocketRateLimits,
} from "./SocketRates.ts";
import type { Subjects } from "../../schemas/Subjects.ts";

export interface GatewayConfig {
  /** Unique for the process's life; in subjects, leases and logs. */
  readonly gatewayId: string;
  readonly subjects: Subjects;
  /** As provisioned. */
  readonly shards: number;
  /** Scheme and authority that callers use, e.g. `https://hooks.example.com`; without it the request's own. */
  readonly publicUrl?: string;
  /** Largest body of a request that is no declared webhook, bytes. */
  readonly bodyBytesMax: number;
  /** How long an HTTP request to an agent may take, moves of the agent included. */
  readonly requestDeadlineMs: number;
  /** Webhooks stored or being stored whose answer is awaited; past it callers get 429. */
  readonly webhooksWaitingMax: number;
  /** Every webhook lies in the inbox before its agent gets it: one whose turn ends its process comes again by itself. */
  readonly storeFirst: boolean;
  /** Of one address: requests, webhooks and upgrades. Undefined: no limit. */
  readonly addressRate?: Rate;
  /** Of one agent: verified webhooks and upgrades. Undefined: no limit. */
  readonly entityRate?: Rate;
  /** Of one socket, and four times as much of all sockets of one address; past it a socket is closed with 1013. */
  readonly socketRates: SocketRateLimits;
  /** Unsent bytes past which a socket is closed with 1013, those included that wait for it to be open. */
  readonly socketBufferBytesMax: number;
  /** Proxies in front of the gateway whose `X-Forwarded-For` is believed. */
  readonly trustedProxies: number;
  /** Values of `Host` that are answered; undefined: any. */
  readonly hosts?: ServedHosts;
  /** Pages of other origins reach no class by the default routing, and not only no signed one (`agents dev`). */
  readonly sameOrigin?: boolean;
  /** Origins whose pages may, beside the module's. */
  readonly allowedOrigins?: ReadonlyArray<string>;
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
  /** At 10,000 webhooks a second this is two seconds of backlog. */
  webhooksWaitingMax: 20_000,
  socketRates: {
    frames: socketRate(FRAMES_PER_SECOND),
    bytes: socketRate(BYTES_PER_SECOND),
  },
  socketBufferBytesMax: 8 * 1024 * 1024,
};

/** What a module gives a gateway. A function: `agents dev` replaces the module while the gateway runs. */
export interface GatewayModule {
  readonly routes: RouteTable;
  /** Classes that only verified webhooks, and readonly sockets, reach by the default routing. */
  readonly signed: ReadonlySet<string>;
  /** Origins whose pages reach agents by the default routing; undefined: see `GatewayConfig.sameOrigin`. */
  readonly allowedOrigins?: ReadonlyArray<string> | undefined;
  /** Bindings (agent namespaces by class name) and secrets. */
  readonly env: Readonly<Record<string, unknown>>;
  readonly fetch?: (
    request: Request,
    env: Readonly<Record<string, unknown>>,
    context: FetchContext,
  ) => Response | Promise<Response>;
}

export interface GatewayServices {
  readonly access: Access;
  /** As configured in `entityRate`; shared by webhooks and upgrades. */
  readonly entityLimit?: RateLimit | undefined;
  readonly config: GatewayConfig;
  readonly module: () => GatewayModule;
  readonly calls: CallClient;
  readonly metrics: Pick<AgentMetrics, "webhooks">;
  readonly inbox: InboxShape;
  readonly leases: LeasesShape;
  readonly blobs: BlobsShape;
  readonly bus: BusShape;
  readonly time: TimeShape;
  readonly log: LogShape;
}

/** The ports from the context, beside what the process decides. */
export const gatewayServices = (
  own: Pick<GatewayServices, "config" | "module" | "calls" | "metrics">,
) =>
  Effect.gen(function* () {
    const time = yield* Time;
    const { entityRate } = own.config;
    const log = yield* Log;
    const services: GatewayServices = {
      ...own,
      access: new Access({ ...own, log }),
      entityLimit: entityRate === undefined ? undefined : new RateLimit(entityRate, time),
      inbox: yield* Inbox,
      leases: yield* Leases,
      blobs: yield* Blobs,
      bus: yield* Bus,
      time,
      log,
    };
    return services;
  });
