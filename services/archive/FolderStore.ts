/**
 * An archive in a folder (`--archive file:///…`), of a local disk or one that several machines
 * mount.
 *
 * 1. An object is written under a temporary name, flushed to disk, renamed, and its folder flushed.
 *    A process that ends in between leaves a temporary file, which no reader takes for an object.
 * 2. The folder itself is never created: if a disk is not mounted, history would be written beside
 *    it.
 * 3. Only the owner can read the files: they contain what agents received.
 */
import { mkdir, open, readdir, readFile, rename, rm, stat } from "node:fs/promises";
import { dirname, join, posix } from "node:path";
import type { ArchiveStore } from "./ArchiveStore.ts";

const PRIVATE_FOLDER = 0o700;
const PRIVATE_FILE = 0o600;
const TEMPORARY = ".tmp-";

export class FolderStore implements ArchiveStore {
  readonly name: string;
  private readonly root: string;

  private readonly newId: () => string;

  constructor(root: string, newId: () => string) {
    this.root = root;
    this.newId = newId;
    this.name = root;
  }

  async put(key: string, bytes: Uint8Array): Promise<void> {
    const path = join(this.root, key);
    const folder = dirname(path);
    await stat(this.root); // rule 2
    await mkdir(folder, { recursive: true, mode: PRIVATE_FOLDER });
    const temporary = join(folder, TEMPORARY + this.newId());
    try {
      const file = await open(temporary, "wx", PRIVATE_FILE);
      try {
        await file.writeFile(bytes);
        await file.sync();
      } finally {
        await file.close();
      }
      await rename(temporary, path);
    } catch (error) {
      await rm(temporary, { force: true }).catch(() => undefined);
      throw error;
    }
    // Every level may be new.
    for (let at = folder; at.length >= this.root.length; at = dirname(at)) await syncFolder(at);
  }

  async get(
    key: string,
    range?: { readonly offset: number; readonly bytes: number },
  ): Promise<Uint8Array | undefined> {
    const path = join(this.root, key);
    try {
      if (range === undefined) return await readFile(path);
      const file = await open(path, "r");
      try {
        const buffer = Buffer.alloc(range.bytes);
        const { bytesRead } = await file.read(buffer, 0, range.bytes, range.offset);
        return buffer.subarray(0, bytesRead);
      } finally {
        await file.close();
      }
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
      throw error;
    }
  }

  async *list(prefix: string): AsyncGenerator<string, void, void> {
    const entries = await readdir(join(this.root, prefix), { withFileTypes: true }).catch(
      (error: NodeJS.ErrnoException) => {
        if (error.code === "ENOENT") return [];
        throw error;
      },
    );
    for (const entry of entries.toSorted((a, b) => (a.name < b.name ? -1 : 1))) {
      const key = posix.join(prefix, entry.name);
      if (entry.isDirectory()) yield* this.list(`${key}/`);
      else if (!entry.name.startsWith(TEMPORARY)) yield key;
    }
  }
}

async function syncFolder(path: string): Promise<void> {
  const folder = await open(path, "r");
  try {
    await folder.sync();
  } finally {
    await folder.close();
  }
}
