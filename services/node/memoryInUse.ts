/**
 * Measures how much of its memory a process uses, as its allocators count it: V8's heap and what
 * lies outside of it (buffers, pages, SQLite's heap). The kernel's count is not used, because it
 * includes memory that was freed for reuse. Read by a host (`HostServices.memoryInUse`).
 */
import { totalmem } from "node:os";
import { getHeapStatistics } from "node:v8";
import type { DatabasesShape } from "../../core/database/Databases.ts";
import { heapLimit } from "./heapLimit.ts";

/**
 * Part of the machine's (or container's) memory for agents. The rest is for the broker, the gateway
 * and the kernel's cache.
 */
const SHARE = 0.5;
/**
 * Part of the heap's limit that may be in use. Nearer to the limit V8 mostly collects garbage, and
 * at the limit the process ends.
 */
const HEAP_SHARE = 0.75;

/** The default of the bytes that agents may use on this machine. */
export function memoryDefault(): number {
  const constrained = process.constrainedMemory();
  // Without a control group it is 0, or the largest 64-bit number.
  const bytes = constrained > 0 ? Math.min(constrained, totalmem()) : totalmem();
  return Math.floor(bytes * SHARE);
}

/** Code, garbage and buffers of a process beside what its agents take. */
const BESIDE_BYTES = 512 * 1024 * 1024;
/** Past this part of the machine's memory the kernel ends processes, maybe the wrong ones. */
const MACHINE_SHARE = 0.85;

/**
 * The resident bytes at which a process is ended, whatever holds them: twice what its agents may
 * take. `memory`: as `ProcessSettings`.
 */
export function rssBytesMax(memory?: {
  readonly bytesMax: number | undefined;
  readonly processes: number;
}): number {
  const share = (memory?.bytesMax ?? memoryDefault()) / (memory?.processes ?? 1);
  const machine = memoryDefault() / SHARE;
  return Math.min(2 * share + BESIDE_BYTES, machine * MACHINE_SHARE);
}

/** Returns a function for the share in use: 0 is none, 1 all of `bytesMax` or of `heapLimit`. */
export function memoryInUse(options: {
  readonly bytesMax: number;
  readonly databases: Pick<DatabasesShape, "memoryBytes" | "unusedBytes">;
}): () => number {
  const { bytesMax, databases } = options;
  const heapMax = heapLimit() * HEAP_SHARE;
  return () => {
    const { used_heap_size: heap, external_memory: external } = getHeapStatistics();
    // At least the databases' own count, should V8 not count the memory of SQLite's heap.
    const outside = Math.max(databases.memoryBytes(), external - databases.unusedBytes());
    return Math.max((heap + outside) / bytesMax, heap / heapMax);
  };
}
