/**
 * Runs a host in a scope, with the ports from the context: claims shards and runs agents until the
 * scope closes. Used by `agents host`, `agents dev` and tests, which differ only in their layers.
 */
import * as Effect from "effect/Effect";
import { SILENT, type Observability } from "../../core/telemetry/observability.ts";
import type { LastEndings } from "../../core/input/Unbegun.ts";
import type { CallClient } from "../../core/call/CallClient.ts";
import type { AgentMetrics } from "../../core/telemetry/AgentMetrics.ts";
import type { LeaseChange } from "../../core/lease/Leases.ts";
import { LeaseView } from "../../core/lease/LeaseView.ts";
import { Host } from "./Host.ts";
import { hostServices, type HostConfig, type HostServices } from "./HostServices.ts";
import type { OnAsk } from "../../core/input/Isolation.ts";
import { serveIsolated } from "./serveIsolated.ts";

/** Longer than most handlers run. A turn that does not end by then runs again on the next host. */
const DRAIN_TIMEOUT_MS_DEFAULT = 10_000;

/** What a process decides for its host. The ports come from the context. */
export interface RunHostOptions
  extends
    Omit<HostConfig, "drainTimeoutMs">,
    Pick<HostServices, "isolation" | "memoryInUse" | "module" | "onStall" | "queries"> {
  readonly metrics: AgentMetrics;
  /** The client by which agents here call others. Default: they call none. */
  readonly calls?: CallClient;
  /** Default: no events are emitted. */
  readonly observability?: Observability;
  /** As `HostConfig`. Default 10 seconds. */
  readonly drainTimeoutMs?: number;
  /** The known endings of processes on this machine. Default: none. */
  readonly endings?: LastEndings;
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

// prettier-ignore
const servicesOf = ({
  hostId, subjects, shards, sweepMs, turnSeconds, ceilings, writeLimits, requestLines,
  drainTimeoutMs = DRAIN_TIMEOUT_MS_DEFAULT, observability = SILENT, ...own
}: RunHostOptions) =>
  hostServices({
    ...own,
    observability,
    config: {
      hostId, subjects, shards, sweepMs, turnSeconds, ceilings, writeLimits, requestLines,
      drainTimeoutMs,
    },
  });
