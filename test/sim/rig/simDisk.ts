/**
 * Disks of a simulation that have no room: while one is full, writes of its agents' cached pages
 * are cut in the middle, and the meta that marks them as complete can't be written. Reads and
 * removals continue, as on a real disk.
 */
import { CacheFile } from "../../../services/sqlite/CacheFile.ts";
import { PAGE_SIZE } from "../../../services/sqlite/PagePool.ts";
import { patch } from "./patch.ts";

/** Watches the cache files until the returned function is called. `full`: folders on full disks. */
export function limitDisks(full: ReadonlySet<string>, refused: () => void): () => void {
  const isFull = (file: CacheFile): boolean => {
    const { path } = file as unknown as { readonly path: string };
    for (const folder of full) if (path.startsWith(folder)) return true;
    return false;
  };
  const offs = [
    patch(
      CacheFile.prototype,
      "write",
      (plain) =>
        function (this: CacheFile, page, bytes) {
          if (!isFull(this)) return plain.call(this, page, bytes);
          // What fits is written; the rest of a page's bytes are what was there before.
          const whole = Math.floor(bytes.length / PAGE_SIZE / 2) * PAGE_SIZE;
          plain.call(this, page, bytes.subarray(0, whole + PAGE_SIZE / 2));
          refused();
          throw noRoom();
        },
    ),
    patch(
      CacheFile.prototype,
      "writeMeta",
      (plain) =>
        function (this: CacheFile, meta) {
          if (!isFull(this)) return plain.call(this, meta);
          refused();
          throw noRoom();
        },
    ),
  ];
  return () => {
    for (const off of offs) off();
  };
}

const noRoom = (): Error =>
  Object.assign(new Error("ENOSPC: no space left on device"), { code: "ENOSPC" });
