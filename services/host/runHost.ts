/**
 * A host in a scope: the ports from the context, a module, an id; claims its shards and runs agents
 * until the scope closes. Used by `agents host`, `agents dev` and tests, which differ only in layers.
 */
import * as Effect from "effect/Effect";
import { SILENT, type Observability } from "../../core/telemetry/observability.ts";
import type { CallClient } from "../../core/call/CallClient.ts";
import type { AgentMetrics } from "../../core/telemetry/AgentMetrics.ts";
import type { WriteLimitOptions } from "../../core/turn/WriteLimits.ts";
import type { Subjects } from "../../schemas/Subjects.ts";
import { Host } from "./Host.ts";
import { hostServices, type HostModule } from "./HostServices.ts";

/** Longer than most handlers; what is not done by then runs again on the next host. */
export const DRAIN_TIMEOUT_MS_DEFAULT = 10_000;

export interface RunHostOptions {
  readonly hostId: string;
  readonly subjects: Subjects;
  readonly shards: number;
  readonly module: () => HostModule;
  readonly metrics: AgentMetrics;
  /** What its agents call others by. */
  readonly calls?: CallClient;
  /** Default: nobody is told. */
  readonly observability?: Observability;
  readonly drainTimeoutMs?: number;
  readonly sweepMs?: number;
  readonly writeLimits?: WriteLimitOptions | undefined;
  /** As `HostServices`. */
  readonly memoryInUse?: () => number;
}

export const runHost = (options: RunHostOptions) =>
  Effect.gen(function* () {
    const services = yield* hostServices({
      config: {
        hostId: options.hostId,
        subjects: options.subjects,
        shards: options.shards,
        drainTimeoutMs: options.drainTimeoutMs ?? DRAIN_TIMEOUT_MS_DEFAULT,
        ...(options.sweepMs === undefined ? {} : { sweepMs: options.sweepMs }),
        ...(options.writeLimits === undefined ? {} : { writeLimits: options.writeLimits }),
      },
      module: options.module,
      metrics: options.metrics,
      ...(options.calls === undefined ? {} : { calls: options.calls }),
      ...(options.memoryInUse === undefined ? {} : { memoryInUse: options.memoryInUse }),
      observability: options.observability ?? SILENT,
    });
    const host = yield* Host.make(services);
    options.metrics.active(() => host.agentsActive);
    if (options.memoryInUse !== undefined) options.metrics.memoryInUse(options.memoryInUse);
    options.metrics.inboxLag(() => services.inbox.depth());
    return host;
  });
