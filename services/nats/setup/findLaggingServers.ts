/**
 * Finds the servers of a cluster that hold a copy of a stream and are offline or behind. Such a
 * server deletes messages that are removed meanwhile later or not at all: one that catches up from
 * a snapshot forgets the messages and keeps their bytes on disk (nats-server 2.15.1). Called by
 * `agents erase`, through `joinReader`.
 */
import { setTimeout as delay } from "node:timers/promises";
import { storingStreams } from "./durability.ts";
import type { NatsShape } from "../client/Nats.ts";

/**
 * Replicas report to their leader every second. A busy replica is behind in most checks and level
 * in some, so several checks are made.
 */
const CHECKS = 12;
const CHECK_INTERVAL_MS = 250;

interface StreamInfo {
  readonly cluster?: {
    readonly replicas?: ReadonlyArray<{
      readonly name: string;
      readonly current: boolean;
      readonly offline?: boolean;
      /** Nanoseconds since the leader last heard from it. */
      readonly active: number;
    }>;
  };
}

/**
 * Returns the servers' names, sorted; empty for streams with one copy. A replica does not count as
 * lagging once one check since the call has found it level and in contact. The contact matters
 * because the server reports a replica as current for ten seconds after its death. Rejects with
 * `BrokerUnavailable` or `ApiRefusal`.
 */
export async function findLaggingServers({
  api,
  subjects,
}: Pick<NatsShape, "api" | "subjects">): Promise<ReadonlyArray<string>> {
  const startMs = performance.now();
  /** Server names, by stream and server name. */
  const lagging = new Map<string, string>();
  const level = new Set<string>();
  for (let check = 0; check < CHECKS; check++) {
    lagging.clear();
    for (const stream of storingStreams(subjects)) {
      const { cluster } = await api.call<StreamInfo>(`STREAM.INFO.${stream}`);
      const elapsedMs = performance.now() - startMs;
      for (const { name, current, offline, active } of cluster?.replicas ?? []) {
        const key = `${stream} ${name}`;
        if (current && offline !== true && active / 1e6 < elapsedMs) level.add(key);
        if (!level.has(key)) lagging.set(key, name);
      }
    }
    if (lagging.size === 0) break;
    await delay(CHECK_INTERVAL_MS);
  }
  return [...new Set(lagging.values())].toSorted();
}
