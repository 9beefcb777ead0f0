/**
 * A lock file, with which one process at a time uses the files beside it. It names its holder and
 * the nats-server that the holder runs on the folder, if it runs one. `DataFolderLock` refuses a
 * second process; `services/cli/agents/withFileLock` waits.
 *
 * 1. A lock is held if and only if its file names a process that is alive (pid and start time).
 * 2. A dead holder's lock is taken over. Its file is first renamed, which only one process can do.
 * 3. Before a taken-over lock is used, the dead holder's server must end. It is killed if its
 *    watchdog does not end it in time.
 */
import { randomUUID } from "node:crypto";
import { linkSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import {
  identityOf,
  identityOfLiving,
  stillLives,
  type ProcessIdentity,
} from "./ProcessIdentity.ts";

/** Without `startedAt`: the lock is an older release's, which wrote the pid alone. */
type Holder = Pick<ProcessIdentity, "pid"> & Partial<ProcessIdentity>;

interface LockContent {
  readonly holder: Holder;
  /** The server's process, once it was started. */
  readonly server?: ProcessIdentity;
  /** The server's port, for people. */
  readonly port?: number;
}

export interface FileLock {
  /** Records the server that now runs on the folder, for the next holder. */
  readonly note: (server: { readonly pid: number; readonly port: number }) => void;
  /** Releases the lock. Call it only after the server has ended. */
  readonly release: () => void;
}

type Taken =
  | { readonly _tag: "Taken"; readonly lock: FileLock }
  /** `pid` is undefined if the file can be neither read nor moved. */
  | { readonly _tag: "Held"; readonly pid: number | undefined };

/** Longer than the watchdog's grace period, because normally the watchdog ends the server. */
const ORPHAN_TIMEOUT_MS = 8_000;
const POLL_MS = 50;
/** A further attempt is needed only when another process took the lock in between. */
const ATTEMPTS_MAX = 10;

/** Takes the lock of this file, whose folder must exist. Takes seconds only after a crash. */
export async function takeLock(lockFile: string): Promise<Taken> {
  const holder = identityOfLiving(process.pid);
  for (let attempt = 1; ; attempt += 1) {
    if (tryCreate(lockFile, { holder })) break;
    const seen = readLock(lockFile);
    const isHeld = seen !== undefined && stillLives(seen.holder);
    if (isHeld || attempt >= ATTEMPTS_MAX) return { _tag: "Held", pid: seen?.holder.pid };
    await removeDeadLock(lockFile, seen);
  }
  const lock: FileLock = {
    note: ({ pid, port }) => {
      const server = identityOf(pid);
      replace(lockFile, { holder, port, ...(server === undefined ? {} : { server }) });
    },
    release: () => rmSync(lockFile, { force: true }),
  };
  return { _tag: "Taken", lock };
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

function readLock(lockFile: string): LockContent | undefined {
  try {
    return parse(readFileSync(lockFile, "utf8"));
  } catch {
    return undefined; // no such file: the lock is free
  }
}

/** Undefined if the text is not a lock's content: then it names no holder. */
function parse(text: string): LockContent | undefined {
  try {
    const content = JSON.parse(text) as Partial<LockContent> | number;
    if (typeof content === "number") return { holder: { pid: content } };
    return typeof content.holder?.pid === "number"
      ? { ...content, holder: content.holder }
      : undefined;
  } catch {
    return undefined;
  }
}

/** Creates the file whole or not at all: written aside, then linked. False if one exists. */
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
    writeFileSync(lockFile, JSON.stringify(content), { flag: "wx", mode: 0o600 });
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
  writeFileSync(aside, JSON.stringify(content), { mode: 0o600 });
  return aside;
}
