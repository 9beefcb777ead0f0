/**
 * How much of its memory a process has in use, by its own books: what V8 has allocated, pages, SQLite's heap. Not by the
 * kernel's, where what was freed for reuse still counts as taken. Joined with a host by `cli/joinProcess`.
 */
import { totalmem } from "node:os";
import { getHeapStatistics } from "node:v8";

/** Part of the machine's (or container's) memory for agents: the broker, the gateway and the kernel's cache have the rest. */
const SHARE = 0.5;
/** Part of V8's limit that may be in use: nearer to it, it does little but collect garbage, and at it the process ends. */
const HEAP_SHARE = 0.75;

/** Bytes that agents may take on this machine, where nobody says. */
export function memoryDefault(): number {
  const constrained = process.constrainedMemory();
  // Without a control group it is 0, or what a 64-bit counter holds.
  const bytes = constrained > 0 ? Math.min(constrained, totalmem()) : totalmem();
  return Math.floor(bytes * SHARE);
}

/** 0: none; 1: all of `bytesMax`, or of what V8 can hold. */
export function memoryInUse(options: {
  readonly bytesMax: number;
  /** What V8 does not know of. */
  readonly databaseBytes: () => number;
}): () => number {
  const { bytesMax, databaseBytes } = options;
  const { heap_size_limit: heapLimit } = getHeapStatistics();
  return () => {
    const { used_heap_size: heap } = getHeapStatistics();
    return Math.max((heap + databaseBytes()) / bytesMax, heap / (heapLimit * HEAP_SHARE));
  };
}
