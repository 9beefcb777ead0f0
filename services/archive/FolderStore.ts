/**
 * An archive in a folder (`--archive file:///…`), of a local disk or one that several machines
 * mount.
 *
 * 1. An object is written under a temporary name, flushed to disk, renamed, and its folder flushed.
 *    A process that ends in between leaves a temporary file, which no reader takes for an object.
 * 2. The folder itself is never created, and a missing one is not an empty one: if a disk is not
 *    mounted, history would be written beside it, and what it has would seem to be gone.
 * 3. Only the owner can read the files: they contain what agents received.
 * 4. An error says what to do about it.
 */
import type { Dirent } from "node:fs";
import { mkdir, open, readdir, readFile, rename, rm, stat } from "node:fs/promises";
import { dirname, join, posix, relative, resolve, sep } from "node:path";
import type { ArchiveStore } from "./ArchiveStore.ts";

const PRIVATE_FOLDER = 0o700;
const PRIVATE_FILE = 0o600;
const TEMPORARY = ".tmp-";

export class FolderStore implements ArchiveStore {
  readonly name: string;
  private readonly root: string;

  constructor(
    root: string,
    private readonly newId: () => string,
  ) {
    this.name = root;
    this.root = resolve(root);
  }

  put(key: string, bytes: Uint8Array): Promise<void> {
    return this.withRemedy(() => this.write(key, bytes));
  }

  get(
    key: string,
    range?: { readonly offset: number; readonly bytes: number },
  ): Promise<Uint8Array | undefined> {
    return this.withRemedy(() => this.read(key, range));
  }

  async *list(prefix: string): AsyncGenerator<string, void, void> {
    const entries = await this.withRemedy(() => this.entriesOf(prefix));
    for (const entry of entries.toSorted((a, b) => (a.name < b.name ? -1 : 1))) {
      const key = posix.join(prefix, entry.name);
      if (await this.isFolder(key, entry)) yield* this.list(`${key}/`);
      else if (!entry.name.startsWith(TEMPORARY)) yield key;
    }
  }

  /** A link to a folder is one, as it is for `get`. */
  private async isFolder(key: string, entry: Dirent): Promise<boolean> {
    if (!entry.isSymbolicLink()) return entry.isDirectory();
    const found = await stat(join(this.root, key)).catch(() => undefined);
    return found?.isDirectory() === true;
  }

  private async write(key: string, bytes: Uint8Array): Promise<void> {
    const path = join(this.root, key);
    const folder = dirname(path);
    await stat(this.root); // rule 2
    await this.makeFolder(folder);
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
    // Each folder of the path may be new, so that its entry must be flushed, too.
    for (let at = folder; at !== this.root; at = dirname(at)) await syncFolder(at);
    await syncFolder(this.root);
  }

  /** Creates `folder` below the root. Node's `mkdir` calls a read-only disk a missing folder. */
  private async makeFolder(folder: string): Promise<void> {
    let at = this.root;
    for (const name of relative(this.root, folder).split(sep)) {
      at = join(at, name);
      await mkdir(at, PRIVATE_FOLDER).catch((error: unknown) => {
        if (codeOf(error) !== "EEXIST") throw error;
      });
    }
  }

  private async read(
    key: string,
    range: { readonly offset: number; readonly bytes: number } | undefined,
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
      if (codeOf(error) !== "ENOENT") throw error;
      await stat(this.root); // rule 2
      return undefined;
    }
  }

  private async entriesOf(prefix: string): Promise<ReadonlyArray<Dirent>> {
    try {
      return await readdir(join(this.root, prefix), { withFileTypes: true });
    } catch (error) {
      if (codeOf(error) !== "ENOENT") throw error;
      await stat(this.root); // rule 2
      return [];
    }
  }

  /** Rule 4. */
  private async withRemedy<A>(use: () => Promise<A>): Promise<A> {
    try {
      return await use();
    } catch (error) {
      const remedy = REMEDIES[codeOf(error) ?? ""]?.(this.root);
      if (remedy === undefined) throw error;
      throw new Error(`${(error as Error).message}. ${remedy}`, { cause: error });
    }
  }
}

const codeOf = (error: unknown): string | undefined => (error as NodeJS.ErrnoException).code;

const writable = (root: string): string =>
  `Let the user of this process write to ${root} and all in it`;
const REMEDIES: Readonly<Record<string, (root: string) => string>> = {
  ENOENT: (root) => `Mount the disk of ${root}, or create the folder`,
  ENOTDIR: (root) => `Correct --archive: ${root} is no folder`,
  EACCES: writable,
  EPERM: writable,
  EROFS: (root) => `Mount the file system of ${root} so that it can be written`,
  ENOSPC: (root) => `Make room on the disk of ${root}`,
  EDQUOT: (root) => `Raise the quota of this user on the disk of ${root}`,
};

async function syncFolder(path: string): Promise<void> {
  const folder = await open(path, "r");
  try {
    await folder.sync();
  } finally {
    await folder.close();
  }
}
