/**
 * Judges whether a process is about to run out of memory or files: one pure rule. The watchdog's
 * thread passes what it sees, and ends the process before V8 aborts it.
 *
 * 1. The heap counts as of the last beat. What the process has grown by since is added, since a
 *    turn that holds the thread may have put all of it on the heap.
 * 2. A process whose main thread beats may be about to collect garbage: its heap has to stay full
 *    for `STAYS_MS`. One that is held is judged at once: it may allocate a gigabyte a second.
 * 3. Memory outside of the heap (buffers, WebAssembly) has no limit of V8's. The resident size of
 *    the whole process has one here.
 * 4. A process that can open no more files takes no connection and stores no snapshot. Its size
 *    can't be read either, which is how this is detected. It has to last for `STAYS_MS`, too.
 */

/** Of the limit, above which V8 still has room (`heapLimit`). */
const HEAP_FULL = 0.9;
const STAYS_MS = 1_000;

export interface MemorySeen {
  /** As of the last beat. */
  readonly heapMb: number;
  readonly beatRssMb: number;
  /** Now. Undefined: it could not be read (rule 4). */
  readonly rssMb: number | undefined;
  readonly heapLimitMb: number;
  readonly rssMaxMb: number;
  /** The main thread has not beaten since the last look. */
  readonly held: boolean;
  /** For how long it has been full before this look. */
  readonly fullForMs: number;
}

interface MemoryJudgement {
  readonly full: boolean;
  /** The process has to end. */
  readonly over: boolean;
  /** For the log and the dead letter. Undefined: it lacks files, not memory. */
  readonly text: string | undefined;
  /** Megabytes of what is full, or fullest. */
  readonly fullMb: number;
}

export function judgeMemory(seen: MemorySeen): MemoryJudgement {
  const { heapMb, beatRssMb, rssMb, heapLimitMb, rssMaxMb, held, fullForMs } = seen;
  // Rule 4.
  if (rssMb === undefined)
    return { full: true, over: fullForMs >= STAYS_MS, text: undefined, fullMb: 0 };
  const heap = heapMb + Math.max(0, rssMb - beatRssMb); // rule 1
  const heapFull = heapLimitMb > 0 && heap >= heapLimitMb * HEAP_FULL;
  const rssFull = rssMb >= rssMaxMb; // rule 3
  const full = heapFull || rssFull;
  const over = full && (held || fullForMs >= STAYS_MS); // rule 2
  const fullMb = heapFull ? Math.min(heap, heapLimitMb) : rssMb;
  const text = heapFull
    ? `its heap had ${Math.round(fullMb)} of ${Math.round(heapLimitMb)} MB`
    : `it had ${Math.round(fullMb)} of ${Math.round(rssMaxMb)} MB`;
  return { full, over, text, fullMb };
}

/** Megabytes that this process has. Undefined: the system's file about it can't be opened. */
export function residentMb(): number | undefined {
  try {
    return process.memoryUsage.rss() / MB;
  } catch {
    return undefined;
  }
}

/** Bytes. */
const MB = 1024 * 1024;
