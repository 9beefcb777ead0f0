/**
 * The connections that a process can accept under its limit of open files. At the limit itself no
 * connection can be accepted or refused: uWebSockets.js then uses a whole core to try again and
 * again, and the process can't reconnect to its broker. A gateway therefore closes connections
 * before it gets there (`joinGateway.ts`).
 */
import { readFileSync } from "node:fs";

/**
 * Part of the files that is kept for everything else: the broker, the private port, and the files
 * and connections of the module's code.
 */
const KEPT_SHARE = 1 / 8;
/** A gateway without connections has 30 files open. */
const KEPT_MIN = 64;

/** Undefined if the system does not tell: on Linux, `/proc/self/limits` does. */
export function openFilesMax(limits = readLimits()): number | undefined {
  const soft = /^Max open files\s+(\d+)/m.exec(limits)?.[1];
  return soft === undefined ? undefined : Number(soft);
}

/** At least 1. */
export const connectionRoom = (openFiles: number): number =>
  Math.max(1, openFiles - Math.max(KEPT_MIN, Math.ceil(openFiles * KEPT_SHARE)));

function readLimits(): string {
  try {
    return readFileSync("/proc/self/limits", "utf8");
  } catch {
    return "";
  }
}
