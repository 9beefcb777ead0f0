/**
 * The dependencies of a gateway as one record: the ports, the module and its configuration.
 * `runGateway` builds it from the context; `Gateway` and its parts (`WebhookEndpoint`,
 * `SocketTable`, `upgrade`) use it.
 */
import * as Effect from "effect/Effect";
import * as Option from "effect/Option";
import type { FetchContext } from "../../core/namespace/routeAgentRequest.ts";
import { UnfinishedWork } from "../../core/namespace/UnfinishedWork.ts";
import { Blobs, type BlobsShape } from "../../core/journal/Blobs.ts";
import { DeliveryLog, type DeliveryLogShape } from "../../core/delivery/DeliveryLog.ts";
import { Bus, type BusShape } from "../../core/bus/Bus.ts";
import type { CallClient } from "../../core/call/CallClient.ts";
import { Inbox, type InboxShape } from "../../core/inbox/Inbox.ts";
import { Leases, type LeasesShape } from "../../core/lease/Leases.ts";
import { Outgoing, type OutgoingShape } from "../../core/outgoing/Outgoing.ts";
import { Log, type LogShape } from "../../core/telemetry/Log.ts";
import type { AgentMetrics } from "../../core/telemetry/AgentMetrics.ts";
import { RequestLog } from "../../core/telemetry/RequestLog.ts";
import { Tracing, type TracingShape } from "../../core/telemetry/Tracing.ts";
import { Time, type TimeShape } from "../../core/time/Time.ts";
import type { RouteTable } from "../../core/webhook/RouteTable.ts";
import { Access, type AccessModule } from "./Access.ts";
import { RateLimit } from "./RateLimit.ts";
import type { GatewayConfig } from "./GatewayConfig.ts";
import { SocketKeeper } from "./SocketKeeper.ts";

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
  readonly sockets: SocketKeeper;
  /** A function, because `agents dev` replaces the module while the gateway runs. */
  readonly module: () => GatewayModule;
  readonly calls: CallClient;
  readonly metrics: Pick<AgentMetrics, "webhooks">;
  /** Absent: no request is logged. */
  readonly requests?: RequestLog;
  /** Absent: deliveries are not recorded. */
  readonly deliveries?: DeliveryLogShape | undefined;
  /** Checks links of approvals. Absent: none is answered. */
  readonly hmacSha256?: OutgoingShape["hmacSha256"] | undefined;
  /** Absent: nothing is traced. */
  readonly tracing?: TracingShape | undefined;
  /** What the module's `fetch` passed to `waitUntil`. */
  readonly unfinished: UnfinishedWork;
  readonly inbox: InboxShape;
  readonly leases: LeasesShape;
  readonly blobs: BlobsShape;
  readonly bus: BusShape;
  readonly time: TimeShape;
  readonly log: LogShape;
}

/** Adds the ports of the context to the given services. */
export const gatewayServices = (
  own: Pick<GatewayServices, "config" | "module" | "calls" | "metrics">,
) =>
  Effect.gen(function* () {
    const time = yield* Time;
    const { entityRate, requestLines } = own.config;
    const log = yield* Log;
    const leases = yield* Leases;
    const bus = yield* Bus;
    const entityLimit = entityRate === undefined ? undefined : new RateLimit(entityRate, time);
    const services: GatewayServices = {
      ...own,
      access: new Access({ ...own, log }),
      sockets: new SocketKeeper({ ...own, bus, entityLimit, leases, log, time }),
      entityLimit,
      unfinished: new UnfinishedWork(time, log),
      inbox: yield* Inbox,
      leases,
      blobs: yield* Blobs,
      bus,
      requests: new RequestLog(log, time, requestLines),
      deliveries: Option.getOrUndefined(yield* Effect.serviceOption(DeliveryLog)),
      hmacSha256: Option.getOrUndefined(yield* Effect.serviceOption(Outgoing))?.hmacSha256,
      tracing: Option.getOrUndefined(yield* Effect.serviceOption(Tracing)),
      time,
      log,
    };
    return services;
  });
