/**
 * Lets one process at a time work on a folder's files: takes a lock (`services/lock/FileLock`), and
 * waits for another holder. Used for the view of `agents query` and for backups.
 */
import type { TimeShape } from "../../../core/time/Time.ts";
import { takeLock } from "../../lock/FileLock.ts";
import { failed } from "../terminal/CliError.ts";
import { sleep } from "../../../core/time/sleep.ts";

/** A query of a small view takes about as long. */
const AGAIN_MS = 100;

export interface LockOptions {
  readonly path: string;
  /** How long to wait for another holder. */
  readonly waitMs: number;
  /** The error's message after that. */
  readonly busy: (holder: string) => string;
}

/** Rejects with `CliError` if another process holds it for too long, and as `use` does. */
export async function withFileLock<A>(
  { path, waitMs, busy }: LockOptions,
  time: Pick<TimeShape, "after" | "monotonicMs">,
  use: () => Promise<A>,
): Promise<A> {
  const startMs = time.monotonicMs();
  for (;;) {
    const taken = await takeLock(path);
    if (taken._tag === "Taken")
      try {
        return await use();
      } finally {
        taken.lock.release();
      }
    if (time.monotonicMs() - startMs >= waitMs)
      throw failed(busy(`Process ${taken.pid ?? "unknown"}`));
    await sleep(time, AGAIN_MS);
  }
}
