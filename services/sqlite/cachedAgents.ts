/**
 * Lists the agents that have files in a local cache folder (`cachePath`), read from the files. Used
 * by a host that was not running while agents were erased. Old files that name no agent are
 * removed, because no erasure would find them.
 */
import { rm, stat } from "node:fs/promises";
import type { AgentId } from "../../schemas/Address.ts";
import { CACHE_ENDING, idOfCache } from "./CacheFile.ts";
import { filesBelow } from "./filesBelow.ts";

/**
 * Yields the agents in no particular order, and none if the folder does not exist. A file that was
 * last written before `startMs` (milliseconds since the epoch) and names no agent was left by a
 * dead process, and is removed.
 */
export async function* cachedAgents(
  folder: string,
  startMs: number,
): AsyncGenerator<AgentId, void, void> {
  for await (const path of filesBelow(folder)) {
    const id = path.endsWith(CACHE_ENDING) ? idOfCache(path) : undefined;
    if (id !== undefined) yield id;
    else if (await isOlder(path, startMs)) await rm(path, { force: true });
  }
}

/** The file of an agent in memory may name no agent either, but was written later. */
const isOlder = async (path: string, thanMs: number): Promise<boolean> => {
  const found = await stat(path).catch(() => undefined);
  return found !== undefined && found.mtimeMs < thanMs;
};
