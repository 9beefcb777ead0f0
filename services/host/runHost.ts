/**
 * Runs a host in a scope, with the ports from the context: claims shards and runs agents until the
 * scope closes. Used by `agents host`, `agents dev` and tests, which differ only in their layers.
 */
import * as Effect from "effect/Effect";
import { SILENT, type Observability } from "../../core/telemetry/observability.ts";
import type { LastEndings } from "../../core/input/Unbegun.ts";
import type { CallClient } from "../../core/call/CallClient.ts";
import type { AgentMetrics } from "../../core/telemetry/AgentMetrics.ts";
import type { RequestLines } from "../../core/telemetry/RequestLog.ts";
import type { QueriesShape } from "../../core/query/Queries.ts";
import type { CeilingOptions } from "../../core/turn/Ceilings.ts";
import type { WriteLimitOptions } from "../../core/turn/WriteLimits.ts";
import type { Subjects } from "../../schemas/Subjects.ts";
import type { LeaseChange } from "../../core/lease/Leases.ts";
import { LeaseView } from "../../core/lease/LeaseView.ts";
import { Host } from "./Host.ts";
import { hostServices, type HostModule, type HostServices } from "./HostServices.ts";
import type { Isolation, OnAsk } from "../../core/input/Isolation.ts";
import { serveIsolated } from "./serveIsolated.ts";

/** Longer than most handlers run. A turn that does not end by then runs again on the next host. */
export const DRAIN_TIMEOUT_MS_DEFAULT = 10_000;

export interface RunHostOptions {
  readonly hostId: string;
  readonly subjects: Subjects;
  readonly shards: number;
  readonly module: () => HostModule;
  readonly metrics: AgentMetrics;
  /** The client by which agents here call others. Default: they call none. */
  readonly calls?: CallClient;
  /** Default: no events are emitted. */
  readonly observability?: Observability;
  /** As `HostConfig`. Default 10 seconds. */
  readonly drainTimeoutMs?: number;
  /** As `HostConfig`. */
  readonly sweepMs?: number;
  /** As `HostConfig`. */
  readonly turnSeconds?: number | undefined;
  /** As `HostConfig`. */
  readonly ceilings?: CeilingOptions | undefined;
  /** As `HostConfig`. */
  readonly writeLimits?: WriteLimitOptions | undefined;
  /** As `HostConfig`. */
  readonly requestLines?: RequestLines | undefined;
  /** The known endings of processes on this machine. Default: none. */
  readonly endings?: LastEndings;
  /** As `HostServices`. */
  readonly memoryInUse?: () => number;
  readonly isolation?: Isolation | undefined;
  /** As `HostServices`. */
  readonly queries?: QueriesShape | undefined;
  /** As `HostServices`. */
  readonly onStall?: HostServices["onStall"];
}

export const runHost = (options: RunHostOptions) =>
  Effect.gen(function* () {
    const services = yield* servicesOf(options);
    const host = yield* Host.make(services);
    for (const name of options.module().agents.keys()) options.metrics.ofClass(name);
    options.metrics.active(() => host.agentsActive);
    options.metrics.quarantined(() => services.quarantined.size);
    if (options.memoryInUse !== undefined) options.metrics.memoryInUse(options.memoryInUse);
    options.metrics.deliveryRecordsDropped(() => services.deliveries?.dropped() ?? 0);
    options.metrics.inboxLag(() => services.inbox.depth());
    return host;
  });

/** Runs one isolated agent in a scope, for the host that owns its shard (`serveIsolated`). */
export const runIsolated = (options: RunHostOptions, onAsk: OnAsk) =>
  Effect.gen(function* () {
    const services = yield* servicesOf(options);
    const isolated = yield* serveIsolated(services, onAsk);
    options.metrics.active(() => isolated.agentsActive);
    const view = new LeaseView();
    const watching = yield* Effect.acquireRelease(
      Effect.sync(() => new AbortController()),
      (controller) => Effect.sync(() => controller.abort()),
    );
    // The agent's own calls have to find the owners of other shards.
    const changed = (change: LeaseChange): void =>
      services.calls?.leaseChanged(change, view.heard(change));
    yield* Effect.promise(() => services.leases.watch(changed, watching.signal));
  });

const servicesOf = (options: RunHostOptions) =>
  hostServices({
    config: {
      hostId: options.hostId,
      subjects: options.subjects,
      shards: options.shards,
      drainTimeoutMs: options.drainTimeoutMs ?? DRAIN_TIMEOUT_MS_DEFAULT,
      ...(options.sweepMs === undefined ? {} : { sweepMs: options.sweepMs }),
      ...(options.turnSeconds === undefined ? {} : { turnSeconds: options.turnSeconds }),
      ...(options.ceilings === undefined ? {} : { ceilings: options.ceilings }),
      ...(options.writeLimits === undefined ? {} : { writeLimits: options.writeLimits }),
      requestLines: options.requestLines,
    },
    module: options.module,
    metrics: options.metrics,
    isolation: options.isolation,
    queries: options.queries,
    onStall: options.onStall,
    ...(options.calls === undefined ? {} : { calls: options.calls }),
    ...(options.memoryInUse === undefined ? {} : { memoryInUse: options.memoryInUse }),
    ...(options.endings === undefined ? {} : { endings: options.endings }),
    observability: options.observability ?? SILENT,
  });
