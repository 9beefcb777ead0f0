/** The walk of retention over the agent of a test, and what operators see of it. */
import type { ArchiveShape } from "../../core/retention/Archive.ts";
import { retentionMetrics } from "../../core/retention/RetentionMetrics.ts";
import { PrometheusMetrics } from "../../services/admin/PrometheusMetrics.ts";
import { makeMemoryLeases } from "../../services/memory/MemoryLeases.ts";
import { Retention, type RetentionServices } from "../../services/retention/Retention.ts";
import { readinessOf } from "../../services/wiring/readiness.ts";
import { collectingLog } from "../kit/system.ts";
import { ID, type Journaled } from "./Journaled.ts";

/** Keeps three events. `archive`: what of one the test needs; `over`: other services. */
export function retentionOf(
  agent: Journaled,
  archive?: Partial<ArchiveShape>,
  over: Partial<RetentionServices> = {},
) {
  const metrics = new PrometheusMetrics();
  const log = collectingLog();
  const retention = new Retention({
    ...agent.ports,
    leases: makeMemoryLeases(agent.broker.connect()),
    time: agent.time,
    log,
    metrics: retentionMetrics(metrics),
    id: agent.time.id(),
    ...(archive === undefined ? {} : { archive: archive as ArchiveShape }),
    classes: () => [{ className: ID.class, limits: { events: 3 } }],
    ...over,
  });
  const readiness = () =>
    readinessOf({
      connected: true, host: undefined, gateway: undefined, shards: 1, leaseTtlMs: 1, durability: "-",
      retention: retention.state,
    }); // prettier-ignore
  return { retention, metrics, log, readiness };
}

/** Stops them, however long that takes in virtual time. */
export async function stopped(agent: Journaled, ...all: Retention[]): Promise<void> {
  const ends = Promise.all(all.map((retention) => retention.stop()));
  await agent.time.advance(10_000);
  await ends;
}
