/**
 * Empties the folders of hosts that are no longer started, such as those of the last workers after
 * `--workers` was lowered. Otherwise local images would stay in them forever, including those of
 * agents that were erased later. The folders are only caches. Used by `joinHostFolder`.
 *
 * A folder is emptied when two checks in a row find that no process holds its lock, so that a host
 * that is restarted finds its images.
 */
import { readdir, rm } from "node:fs/promises";
import { join } from "node:path";
import { messageOf } from "../../core/errors/thrown.ts";
import type { LogShape } from "../../core/telemetry/Log.ts";
import { interval } from "../../core/time/interval.ts";
import type { TimeShape } from "../../core/time/Time.ts";
import { LOCK_FILE, lockDataFolder } from "./DataFolderLock.ts";

/** Longer than the restart of a machine. */
const LOOK_MS = 60 * 60 * 1_000;

interface ClearPorts {
  readonly time: Pick<TimeShape, "after">;
  readonly log: Pick<LogShape, "info" | "warn">;
}

/** Looks at each folder in `parent`, until the returned function is called. */
export function clearUnused(parent: string, { time, log }: ClearPorts): () => void {
  let free: ReadonlySet<string> = new Set();
  const look = async (): Promise<void> => {
    const freeNow = new Set<string>();
    for (const name of await readdir(parent)) {
      const folder = join(parent, name);
      const lock = await lockDataFolder(folder).catch(() => undefined);
      if (lock === undefined) continue;
      try {
        const content = (await readdir(folder)).filter((entry) => entry !== LOCK_FILE);
        freeNow.add(name);
        if (!free.has(name) || content.length === 0) continue;
        for (const entry of content) await rm(join(folder, entry), { recursive: true });
        log.info("the folder of a host that is not started any more was emptied", { folder });
      } finally {
        lock.release();
      }
    }
    free = freeNow;
  };
  return interval(time, LOOK_MS, () =>
    look().catch((error: unknown) =>
      log.warn("unused folders of hosts could not be emptied", { error: messageOf(error) }),
    ),
  );
}
