/**
 * Keeps the folder of local images below a size, by removing those that were used longest ago.
 * Without it a host would keep a file for every agent that was ever awake on it.
 *
 * 1. The folder is read only when its size and what was added since may exceed the limit. The size
 *    is unknown at first, so the first image that is kept causes a look.
 * 2. A look frees a part of the limit, so that the next one is not due at once.
 * 3. An agent whose image was removed is rebuilt from its snapshot and journal when it wakes. The
 *    image of an agent in memory stays.
 * 4. Use is known to a minute, and where nothing was written, to a day (`CacheFile`).
 *
 * `ImageStore` owns it. A folder that can't be read is left as it is.
 */
import { stat } from "node:fs/promises";
import { setTimeout as delay } from "node:timers/promises";
import type { AgentId } from "../../schemas/Address.ts";
import { CACHE_ENDING, idOfCache } from "./CacheFile.ts";
import { filesBelow } from "./filesBelow.ts";

/** Rule 2: the part of the limit that is used after a look. */
const USED_AFTER = 0.9;
/** Rule 2: the part of the limit that is added until the next look, where little was freed. */
const ADDED_MIN = 0.01;
/** A pause after so many files: a folder of 200,000 takes less than a quarter of a core's time. */
const FILES_AT_ONCE = 100;
const PAUSE_MS = 20;
/** Rule 4. */
const AGE_MS = 60_000;

export class FolderLimit {
  /** Bytes at which the next look begins. */
  private lookAt: number;
  /** Rule 1. */
  private bytes = Infinity;
  private looking: Promise<void> | undefined;

  constructor(
    private readonly folder: string,
    private readonly bytesMax: number,
    /** Removes an agent's image. Returns false if the agent is in memory: its image stays. */
    private readonly discard: (id: AgentId) => boolean,
  ) {
    this.lookAt = bytesMax;
  }

  /** An image was written, and its file is larger by `bytes` than before. */
  grew(bytes: number): void {
    this.bytes += bytes;
    if (this.bytes > this.lookAt)
      this.looking ??= this.look().finally(() => (this.looking = undefined));
  }

  private async look(): Promise<void> {
    const { bytesMax } = this;
    let removed: number;
    let total: number;
    do {
      this.bytes = 0; // what is added during the look counts, too
      const used = await this.usedByAge().catch(() => new Map<number, number>());
      total = 0;
      for (const bytes of used.values()) total += bytes;
      const excess = total - bytesMax * USED_AFTER;
      removed = total > bytesMax ? await this.removeTo(excess, used) : 0;
      this.bytes += total - removed;
    } while (this.bytes > bytesMax && (removed > 0 || total <= bytesMax));
    this.lookAt = Math.max(bytesMax, this.bytes + bytesMax * ADDED_MIN);
  }

  /** Bytes by the minute of their last use. */
  private async usedByAge(): Promise<Map<number, number>> {
    const used = new Map<number, number>();
    for await (const { age, bytes } of this.images()) used.set(age, (used.get(age) ?? 0) + bytes);
    return used;
  }

  /** Removes the oldest images, of `excess` bytes or a little more. Returns how many it removed. */
  private async removeTo(excess: number, used: ReadonlyMap<number, number>): Promise<number> {
    let last = -Infinity;
    let older = 0;
    for (const [age, bytes] of [...used].toSorted(([a], [b]) => a - b)) {
      if (older >= excess) break;
      last = age;
      older += bytes;
    }
    let removed = 0;
    try {
      for await (const { path, age, bytes } of this.images()) {
        if (age > last || removed >= excess) continue;
        const id = idOfCache(path);
        // Without an id, its agent is in memory and has written to it.
        if (id !== undefined && this.discard(id)) removed += bytes;
      }
    } catch {
      // The disk fails, and the images stay.
    }
    return removed;
  }

  private async *images() {
    let files = 0;
    for await (const path of filesBelow(this.folder)) {
      if (!path.endsWith(CACHE_ENDING)) continue;
      if (++files % FILES_AT_ONCE === 0) await delay(PAUSE_MS, undefined, { ref: false });
      const found = await stat(path).catch(() => undefined); // an erased agent's is gone
      if (found === undefined) continue;
      yield { path, age: Math.floor(found.mtimeMs / AGE_MS), bytes: found.size };
    }
  }
}
