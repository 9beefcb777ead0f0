/**
 * The file descriptors of the local cache, opened on demand. At most `OPEN_FILES_MAX` are open at a
 * time, whatever the number of agents; the least recently used is closed first.
 */
import { closeSync, constants, mkdirSync, openSync } from "node:fs";
import { dirname } from "node:path";

/** Well below the usual limit of 1,024 per process; sockets and the broker need descriptors too. */
const OPEN_FILES_MAX = 128;

export class OpenFiles {
  private readonly open = new Map<string, number>();

  /**
   * Returns a descriptor for reading and writing, valid until the next call. Creates a missing
   * file, or with `make: false` returns undefined for it. Throws the disk's error.
   */
  use(path: string, options?: { readonly make: true }): number;
  use(path: string, options: { readonly make: false }): number | undefined;
  use(path: string, { make } = { make: true }): number | undefined {
    const known = this.open.get(path);
    if (known !== undefined) {
      this.open.delete(path);
      this.open.set(path, known);
      return known;
    }
    const fd = make ? openOrMake(path) : openOld(path);
    if (fd === undefined) return undefined;
    if (this.open.size >= OPEN_FILES_MAX) this.close(this.open.keys().next().value!);
    this.open.set(path, fd);
    return fd;
  }

  /** Does nothing if the file is not open. */
  close(path: string): void {
    const fd = this.open.get(path);
    if (fd === undefined) return;
    this.open.delete(path);
    closeSync(fd);
  }

  closeAll(): void {
    for (const path of this.open.keys()) this.close(path);
  }

  get size(): number {
    return this.open.size;
  }
}

function openOld(path: string): number | undefined {
  try {
    return openSync(path, constants.O_RDWR);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ENOENT") throw error;
    return undefined;
  }
}

function openOrMake(path: string): number {
  const flags = constants.O_RDWR | constants.O_CREAT;
  try {
    return openSync(path, flags, 0o600);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ENOENT") throw error;
    mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
    return openSync(path, flags, 0o600);
  }
}
