/**
 * Ensures that at most one process uses a data folder: two nats-servers would destroy each other's
 * streams, two hosts each other's images. The lock itself is a `FileLock`.
 */
import { join } from "node:path";
import * as Data from "effect/Data";
import { takeLock, type FileLock } from "./FileLock.ts";

/** Lies in the folder. */
export const LOCK_FILE = "lock.json";

/** Another process that is alive holds this folder. */
export class DataFolderInUse extends Data.TaggedError("DataFolderInUse")<{
  readonly folder: string;
  /** Undefined if the lock file can be neither read nor moved. */
  readonly pid: number | undefined;
  readonly lockFile: string;
}> {
  override get message(): string {
    const holder = this.pid === undefined ? "another process" : `process ${this.pid}`;
    return (
      `${this.folder} is in use by ${holder}. ` +
      `Stop that one first, or choose another data folder. (If ${holder} is not yours, ` +
      `delete ${this.lockFile}.)`
    );
  }
}

/** Locks `folder`, which must exist. Rejects with `DataFolderInUse`. */
export async function lockDataFolder(folder: string): Promise<FileLock> {
  const lockFile = join(folder, LOCK_FILE);
  const taken = await takeLock(lockFile);
  if (taken._tag === "Taken") return taken.lock;
  throw new DataFolderInUse({ folder, pid: taken.pid, lockFile });
}
