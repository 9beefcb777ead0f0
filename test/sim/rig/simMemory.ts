/** Memory that runs short in some runs: agents leave at rest, and connections are few. */
import type { Installation } from "../Installation.ts";
import { Random } from "./Random.ts";
import type { SimProcess } from "./SimProcess.ts";

/** The share of runs that are short of memory. */
const SHORT = 0.25;
/** The share of the time in which it is full. */
const FULL = 0.2;
const SLICE_MS = 1_000;

export interface SimMemory {
  readonly heapBytesMax?: number;
  readonly memoryInUse?: () => number;
}

export function simMemory({ seed, weather }: Installation, process: SimProcess): SimMemory {
  if (!new Random(seed, "memory").chance(SHORT)) return {};
  const random = new Random(seed, `memory of ${process.name}`);
  let untilMs = 0;
  let inUse = 0;
  return {
    heapBytesMax: 0,
    memoryInUse: () => {
      const nowMs = process.time.monotonicMs();
      if (nowMs < untilMs) return inUse;
      untilMs = nowMs + random.next() * 2 * SLICE_MS;
      inUse = random.chance(FULL) ? 0.7 + random.next() * 0.4 : 0;
      if (inUse > 1) weather.bit("memory full");
      return inUse;
    },
  };
}
