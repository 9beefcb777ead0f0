/**
 * Creates a folder whose path a person has typed, with all above it. Node's own recursive `mkdir`
 * never returns where the system reports a missing folder although the one above exists, as in
 * `/proc` (seen on Node 20.20). It also reports a file system that can't be written as a missing
 * folder.
 */
import { mkdirSync, statSync } from "node:fs";
import { dirname } from "node:path";

/** Does nothing if the folder exists. Throws the system's error. `mode`: of what is created. */
export function makeFolder(path: string, mode?: number): void {
  if (statSync(path, { throwIfNoEntry: false })?.isDirectory() === true) return;
  makeFolder(dirname(path), mode);
  try {
    mkdirSync(path, { mode });
  } catch (error) {
    // Another process may have created it meanwhile.
    if (statSync(path, { throwIfNoEntry: false })?.isDirectory() !== true) throw error;
  }
}
