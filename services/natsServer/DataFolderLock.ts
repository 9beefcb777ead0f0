/**
 * Ensures that at most one process uses a data folder: two nats-servers would destroy each other's
 * streams, two hosts each other's images. Owns the lock file, which names its holder and the
 * nats-server that the holder runs, if it runs one.
 *
 * 1. A lock is held if and only if its file names a process that is alive (pid and start time).
 * 2. A dead holder's lock is taken over. Its file is first renamed, which only one process can do.
 * 3. Before a taken-over folder is used, the dead holder's server must end. It is killed if its
 *    watchdog does not end it in time.
 */
import { randomUUID } from "node:crypto";
import { linkSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import * as Data from "effect/Data";
import { identityOf, stillLives, type ProcessIdentity } from "../lock/ProcessIdentity.ts";

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
      `Stop that one first, or choose another data folder. (If ${holder} is none of yours, ` +
      `delete ${this.lockFile}.)`
    );
  }
}

export interface LockContent {
  readonly holder: ProcessIdentity;
  /** The server's process, once it was started. */
  readonly server?: ProcessIdentity;
  /** The server's port. */
  readonly port?: number;
}

export interface DataFolderLock {
  /** Records the server that now runs on the folder, for the next holder. */
  readonly note: (server: { readonly pid: number; readonly port: number }) => void;
  /** Releases the folder. Call it only after the server has ended. */
  readonly release: () => void;
}

/** Longer than the watchdog's grace period, because normally the watchdog ends the server. */
const ORPHAN_TIMEOUT_MS = 8_000;
const POLL_MS = 50;
/** A further attempt is needed only when another process took the lock in between. */
const ATTEMPTS_MAX = 10;

/**
 * Locks `folder`, which must exist. Rejects with `DataFolderInUse`. Takes seconds only after a
 * crash.
 */
export async function lockDataFolder(folder: string): Promise<DataFolderLock> {
  const lockFile = lockFileOf(folder);
  const holder = identityOf(process.pid) ?? { pid: process.pid, startedAt: "" };
  for (let attempt = 1; ; attempt += 1) {
    if (tryCreate(lockFile, { holder })) break;
    const seen = readLock(folder);
    const isHeld = seen !== undefined && stillLives(seen.holder);
    if (isHeld || attempt >= ATTEMPTS_MAX) {
      throw new DataFolderInUse({ folder, pid: seen?.holder.pid, lockFile });
    }
    await removeDeadLock(lockFile, seen);
  }
  return {
    note: ({ pid, port }) => {
      const server = identityOf(pid);
      replace(lockFile, { holder, port, ...(server === undefined ? {} : { server }) });
    },
    release: () => rmSync(lockFile, { force: true }),
  };
}

/** Ends the server of a dead holder, then moves its lock away (rules 2 and 3). */
async function removeDeadLock(lockFile: string, seen: LockContent | undefined): Promise<void> {
  if (seen?.server !== undefined) await endOrphan(seen.server);
  const aside = `${lockFile}.${randomUUID()}`;
  try {
    renameSync(lockFile, aside);
  } catch {
    return; // another process was first, or the file is gone: the next attempt shows which
  }
  const moved = parse(readFileSync(aside, "utf8"));
  if (moved !== undefined && stillLives(moved.holder)) {
    // Another process took the lock between the read and the rename. It keeps the lock.
    try {
      linkSync(aside, lockFile);
    } catch {
      // A third process has taken the lock meanwhile. The server's fixed port decides between them.
    }
  }
  rmSync(aside, { force: true });
}

async function endOrphan(server: ProcessIdentity): Promise<void> {
  const deadlineMs = performance.now() + ORPHAN_TIMEOUT_MS;
  while (stillLives(server)) {
    if (performance.now() > deadlineMs) {
      try {
        process.kill(server.pid, "SIGKILL");
      } catch {
        return; // it has just ended
      }
    }
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
  }
}

function lockFileOf(folder: string): string {
  return join(folder, "lock.json");
}

function readLock(folder: string): LockContent | undefined {
  try {
    return parse(readFileSync(lockFileOf(folder), "utf8"));
  } catch {
    return undefined; // no such file: the folder is free
  }
}

/** Undefined if the text is not a lock's content: then it names no holder. */
function parse(text: string): LockContent | undefined {
  try {
    const content = JSON.parse(text) as Partial<LockContent>;
    return typeof content.holder?.pid === "number"
      ? { ...content, holder: content.holder }
      : undefined;
  } catch {
    return undefined;
  }
}

/**
 * Creates the file complete or not at all: it is written aside, then linked. False if one exists.
 */
function tryCreate(lockFile: string, content: LockContent): boolean {
  const aside = writeAside(lockFile, content);
  try {
    linkSync(aside, lockFile);
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "EEXIST") return false;
    // A disk without hard links (exFAT, some shared folders): exclusive creation is nearly as safe.
    return createExclusively(lockFile, content);
  } finally {
    rmSync(aside, { force: true });
  }
}

function createExclusively(lockFile: string, content: LockContent): boolean {
  try {
    writeFileSync(lockFile, JSON.stringify(content), { flag: "wx" });
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "EEXIST") return false;
    throw error;
  }
}

function replace(lockFile: string, content: LockContent): void {
  renameSync(writeAside(lockFile, content), lockFile);
}

function writeAside(lockFile: string, content: LockContent): string {
  const aside = `${lockFile}.${randomUUID()}`;
  writeFileSync(aside, JSON.stringify(content));
  return aside;
}
