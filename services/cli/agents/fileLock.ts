/**
 * One process at a time works on a folder's files: a lock file names the process that does. A lock
 * that a killed process left is recognized by its pid and start time, since another process may
 * have that pid by now, or by naming nobody for a while.
 *
 * Two processes that find such a lock at the same moment can both take it. Who works on the files
 * must find damage by checksums: a view's pages have them (`core/query/View`, 7), and so do the
 * files of a backup.
 */
import { readFileSync, rmSync, writeFileSync } from "node:fs";
import type { TimeShape } from "../../../core/time/Time.ts";
import {
  identityOf,
  isAlive,
  stillLives,
  type ProcessIdentity,
} from "../../lock/ProcessIdentity.ts";
import { failed } from "../terminal/CliError.ts";

/** A query of a small view takes about as long. */
const AGAIN_MS = 100;
/** Who takes the lock names itself at once; who is killed before it does never will. */
const NAMELESS_MS_MAX = 2_000;

export interface FileLock {
  readonly path: string;
  /** For how long another process's end is waited for. */
  readonly waitMs: number;
  /** What to say then. */
  readonly busy: (holder: string) => string;
}

/** Without `startedAt`: the lock is an older release's, which wrote the pid alone. */
type Holder = Pick<ProcessIdentity, "pid"> & Partial<ProcessIdentity>;

/** Rejects with `CliError` when another process holds it for too long, and as `use` does. */
export async function withFileLock<A>(
  { path, waitMs, busy }: FileLock,
  time: Pick<TimeShape, "after" | "monotonicMs">,
  use: () => Promise<A>,
): Promise<A> {
  const startMs = time.monotonicMs();
  let namedMs = startMs;
  while (!take(path)) {
    const nowMs = time.monotonicMs();
    const holder = holderOf(path);
    if (holder !== undefined) namedMs = nowMs;
    const isLeft = holder === undefined ? nowMs - namedMs >= NAMELESS_MS_MAX : !holds(holder);
    if (isLeft) {
      rmSync(path, { force: true });
      namedMs = nowMs;
    } else if (nowMs - startMs >= waitMs) throw failed(busy(`Process ${holder?.pid ?? "unknown"}`));
    else await new Promise<void>((resolve) => time.after(AGAIN_MS, resolve));
  }
  try {
    return await use();
  } finally {
    rmSync(path, { force: true });
  }
}

function take(path: string): boolean {
  try {
    const self: Holder = identityOf(process.pid) ?? { pid: process.pid };
    writeFileSync(path, JSON.stringify(self), { flag: "wx", mode: 0o600 });
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "EEXIST") return false;
    throw error;
  }
}

/** Undefined: it is being written, or is gone. */
function holderOf(path: string): Holder | undefined {
  try {
    const named = JSON.parse(readFileSync(path, "utf8")) as number | Holder;
    return typeof named === "number" ? { pid: named } : named;
  } catch {
    return undefined;
  }
}

const holds = ({ pid, startedAt }: Holder): boolean =>
  startedAt === undefined ? isAlive(pid) : stillLives({ pid, startedAt });
