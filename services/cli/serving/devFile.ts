/**
 * The file `<data>/dev.json`, with which other commands find the dev server that runs on a folder.
 * `agents dev` writes it once it serves, and removes it when it stops. A file left by a killed
 * server is recognised by its process. Only its owner may read it: the broker's URL can contain a
 * token.
 */
import { mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { stillLives, type ProcessIdentity } from "../../lock/ProcessIdentity.ts";

/** `pid` and `startedAt`: the process that `agents dev` is to its user. */
interface DevFile extends ProcessIdentity {
  /** The gateway's URL, e.g. `http://127.0.0.1:8787`. */
  readonly url: string;
  readonly natsUrl: string;
  readonly namespace: string;
}

type FoundDev =
  | { readonly _tag: "Running"; readonly dev: DevFile }
  /** The process that wrote the file has ended without removing it. */
  | { readonly _tag: "Stale"; readonly pid: number }
  | { readonly _tag: "None" };

const devPath = (dataFolder: string): string => join(dataFolder, "dev.json");

export function writeDevFile(dataFolder: string, dev: DevFile): void {
  mkdirSync(dataFolder, { recursive: true, mode: 0o700 });
  const path = devPath(dataFolder);
  // Renamed into place, so that a reader never sees half of it.
  writeFileSync(`${path}.new`, JSON.stringify(dev, undefined, 2) + "\n", { mode: 0o600 });
  renameSync(`${path}.new`, path);
}

/** Removes the file if it still belongs to `pid`. */
export function removeDevFile(dataFolder: string, pid: number): void {
  if (readDevJson(dataFolder)?.pid === pid) rmSync(devPath(dataFolder), { force: true });
}

export function findDev(dataFolder: string): FoundDev {
  const dev = readDevJson(dataFolder);
  if (dev === undefined) return { _tag: "None" };
  return stillLives(dev) ? { _tag: "Running", dev } : { _tag: "Stale", pid: dev.pid };
}

/** Returns undefined if there is no such file, or it has another format. */
function readDevJson(dataFolder: string): DevFile | undefined {
  try {
    const dev = JSON.parse(readFileSync(devPath(dataFolder), "utf8")) as Partial<DevFile>;
    const whole = typeof dev.natsUrl === "string" && Number.isInteger(dev.pid);
    return whole ? (dev as DevFile) : undefined;
  } catch {
    return undefined;
  }
}
