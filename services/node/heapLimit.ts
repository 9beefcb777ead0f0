/**
 * The heap that a process with agents may have, and the larger one that V8 gives it. V8 aborts a
 * process near its limit without a word about whose objects fill it. The watchdog, which finds out
 * and ends the process itself, needs the room between the two: for a second in which a full heap
 * may be collected, and for the search. The agents go on allocating meanwhile.
 *
 * A process with agents is always a worker (`forkWorker`).
 */
import { getHeapStatistics } from "node:v8";

/**
 * V8's limit, as a multiple of the process's. V8 may abort at 80 % of its own, if collections free
 * too little there; that is above the process's whole limit.
 */
const ROOM = 1.3;
/** Bytes. */
const MB = 1024 * 1024;
const OLD_SPACE = /--max[-_]old[-_]space[-_]size[= ](\d+)/g;

/**
 * Node's options for a worker: those of this process, with room. Its limit is the one that this
 * process was told (`--max-old-space-size`), else V8's default.
 */
export function workerNodeArgs(): string[] {
  // The last one counts, and those of the command line come after those of the environment.
  const told = [process.env["NODE_OPTIONS"] ?? "", ...process.execArgv].join(" ");
  const ownMb = [...told.matchAll(OLD_SPACE)].at(-1)?.[1];
  const limitMb = ownMb === undefined ? getHeapStatistics().heap_size_limit / MB : Number(ownMb);
  return [...process.execArgv, `--max-old-space-size=${Math.ceil(limitMb * ROOM)}`];
}

/** Bytes of heap that this worker may have, of the `ofV8` that V8 lets it have. */
export const heapLimit = (ofV8 = getHeapStatistics().heap_size_limit): number => ofV8 / ROOM;
