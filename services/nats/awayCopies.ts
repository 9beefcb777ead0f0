/**
 * Which servers of a cluster hold copies and are away, or behind. What is removed meanwhile is removed from their files
 * later or not at all: a server that catches up from a snapshot forgets such messages and keeps their bytes (2.15.1).
 * Asked by `agents erase`, through `joinReader`.
 */
import { setTimeout as delay } from "node:timers/promises";
import { storingStreams } from "./durability.ts";
import type { NatsShape } from "./Nats.ts";

/** Copies answer their leader every second; a busy one is behind at most looks, and level in some. */
const LOOKS = 12;
const LOOK_MS = 250;

interface StreamInfo {
  readonly cluster?: {
    readonly replicas?: ReadonlyArray<{
      readonly name: string;
      readonly current: boolean;
      readonly offline?: boolean;
      /** Nanoseconds since it was heard. */
      readonly active: number;
    }>;
  };
}

/**
 * Names of the servers; empty where there is one copy. A copy is not away once it was level and heard of since this
 * began: the server itself calls one current for ten seconds after its death. Rejects with `BrokerUnavailable` or
 * `ApiRefusal`.
 */
export async function awayCopies({
  api,
  subjects,
}: Pick<NatsShape, "api" | "subjects">): Promise<ReadonlyArray<string>> {
  const startMs = performance.now();
  /** Names by stream and name. */
  const away = new Map<string, string>();
  const level = new Set<string>();
  for (let look = 0; look < LOOKS; look++) {
    away.clear();
    for (const stream of storingStreams(subjects)) {
      const { cluster } = await api.call<StreamInfo>(`STREAM.INFO.${stream}`);
      const elapsedMs = performance.now() - startMs;
      for (const { name, current, offline, active } of cluster?.replicas ?? []) {
        const key = `${stream} ${name}`;
        if (current && offline !== true && active / 1e6 < elapsedMs) level.add(key);
        if (!level.has(key)) away.set(key, name);
      }
    }
    if (away.size === 0) break;
    await delay(LOOK_MS);
  }
  return [...new Set(away.values())].toSorted();
}
