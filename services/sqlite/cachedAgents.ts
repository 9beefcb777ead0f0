/**
 * Which agents have files in a local cache folder (`cachePath`), read from the files themselves. For a host that was
 * away while agents were erased, and looks through what it has: so nothing that can't be named may stay.
 */
import { opendir, rm, stat } from "node:fs/promises";
import { join } from "node:path";
import type { AgentId } from "../../schemas/Address.ts";
import { CACHE_ENDING, idOfCache } from "./CacheFile.ts";

/**
 * In no particular order; a folder that is not there holds none. Files last written before `startMs` (Unix time) that say
 * of no agent are what a dead process left: nobody will use them, and they are removed.
 */
export async function* cachedAgents(
  folder: string,
  startMs: number,
): AsyncGenerator<AgentId, void, void> {
  const files = await opendir(folder, { recursive: true }).catch(() => undefined);
  if (files === undefined) return;
  for await (const file of files) {
    if (!file.isFile()) continue;
    const path = join(file.parentPath, file.name);
    const id = file.name.endsWith(CACHE_ENDING) ? idOfCache(path) : undefined;
    if (id !== undefined) yield id;
    else if (await isOlder(path, startMs)) await rm(path, { force: true });
  }
}

/** An agent that is awake has written to its file since: only then it says of no agent. */
const isOlder = async (path: string, thanMs: number): Promise<boolean> => {
  const found = await stat(path).catch(() => undefined);
  return found !== undefined && found.mtimeMs < thanMs;
};
