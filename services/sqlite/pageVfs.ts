/**
 * The SQLite VFS whose files are `PageFile`s. Installed once. Each database is a name in the
 * engine's table, and an open file refers to its `PageFile` by a number in its `sqlite3_file`.
 *
 * Only databases are opened through it: rollback journals and temporary files are in the heap
 * (`journal_mode` MEMORY, `temp_store` MEMORY). The journal event makes writes durable, so syncs
 * and locks do nothing. No exception crosses the engine's stack (`PageFile`, rule 3).
 */
import { randomFillSync } from "node:crypto";
import type { Sqlite3Static } from "@sqlite.org/sqlite-wasm";
import type { PageFile } from "./PageFile.ts";
import { PAGE_SIZE } from "./PagePool.ts";
import { RESULT_FULL } from "./SqliteError.ts";

const OK = 0;
const CANTOPEN = 14;
const NOTFOUND = 12;
const IOERR_READ = 10 | (1 << 8);
const IOERR_SHORT_READ = 10 | (2 << 8);
const IOERR_WRITE = 10 | (3 << 8);
const IOERR_TRUNCATE = 10 | (6 << 8);
/** Writing one byte changes no other, so SQLite need not journal neighbouring bytes. */
const POWERSAFE_OVERWRITE = 0x1000;
const NAME = "agent-pages";
/** Longer than any name that the engine assigns. */
const PATH_BYTES_MAX = 64;
/** Size of `sqlite3_file`: the pointer to the methods, then the number of the open file. */
const FILE_BYTES = 8;
/** Milliseconds from the beginning of the Julian period to 1970. */
const JULIAN_EPOCH_MS = 210_866_760_000_000;

/** The engine's heap. `bytes` is read at each use, because the heap moves. */
interface Heap {
  readonly bytes: Buffer;
  readonly readCString: (at: number) => string;
}

/** The databases that the engine has open, by the number in their `sqlite3_file`. */
class OpenFiles {
  private readonly files: (PageFile | undefined)[] = [undefined];
  private readonly free: number[] = [];

  constructor(readonly heap: Heap) {}

  add(at: number, file: PageFile, methods: number): void {
    const number = this.free.pop() ?? this.files.length;
    this.files[number] = file;
    this.heap.bytes.writeInt32LE(methods, at);
    this.heap.bytes.writeInt32LE(number, at + 4);
  }

  at(at: number): PageFile {
    return this.files[this.heap.bytes.readInt32LE(at + 4)]!;
  }

  remove(at: number): void {
    const number = this.heap.bytes.readInt32LE(at + 4);
    this.files[number] = undefined;
    this.free.push(number);
  }
}

/** Installs the VFS. Returns its name, as a C string. */
export function installPageVfs(
  sqlite3: Sqlite3Static,
  heap: Heap,
  find: (name: string) => PageFile | undefined,
): number {
  const { capi, wasm } = sqlite3;
  const io = new capi.sqlite3_io_methods();
  const vfs = new capi.sqlite3_vfs();
  const files = new OpenFiles(heap);
  // The package's types lack the `$` that its struct members have.
  (io as unknown as { $iVersion: number }).$iVersion = 1;
  vfs.$iVersion = 2;
  vfs.$szOsFile = FILE_BYTES;
  vfs.$mxPathname = PATH_BYTES_MAX;
  const name = wasm.allocCString(NAME, false);
  vfs.$zName = name;
  const open = (path: string, at: number): boolean => {
    const file = find(path);
    if (file !== undefined) files.add(at, file, io.pointer as number);
    return file !== undefined;
  };
  sqlite3.vfs.installVfs({
    io: { struct: io, methods: fileMethods(files) as never },
    // Also the default VFS, from which SQLite takes its random seeds; they then come from the
    // system.
    vfs: { struct: vfs, methods: systemMethods(heap, open) as never, asDefault: true },
  });
  return Number(name);
}

const ok = (): number => OK;

/** `sqlite3_io_methods`. `at`: where the file's `sqlite3_file` is in the heap. */
function fileMethods(files: OpenFiles) {
  const { heap } = files;
  const guarded = (file: PageFile, code: number, act: () => number): number => {
    try {
      return act();
    } catch (error) {
      file.failure ??= error;
      return code;
    }
  };
  return {
    xClose: (at: number): number => {
      files.remove(at);
      return OK;
    },
    xRead: (at: number, to: number, length: number, offset: bigint): number => {
      const file = files.at(at);
      return guarded(file, IOERR_READ, () =>
        file.read(heap.bytes, to, length, Number(offset)) ? OK : IOERR_SHORT_READ,
      );
    },
    xWrite: (at: number, from: number, length: number, offset: bigint): number => {
      const file = files.at(at);
      return guarded(file, IOERR_WRITE, () =>
        file.write(heap.bytes, from, length, Number(offset)) ? OK : RESULT_FULL,
      );
    },
    xTruncate: (at: number, size: bigint): number => {
      const file = files.at(at);
      return guarded(file, IOERR_TRUNCATE, () => {
        file.truncate(Number(size));
        return OK;
      });
    },
    xFileSize: (at: number, to: number): number => {
      heap.bytes.writeBigInt64LE(BigInt(files.at(at).count * PAGE_SIZE), to);
      return OK;
    },
    xSync: ok,
    xLock: ok,
    xUnlock: ok,
    xCheckReservedLock: (_: number, to: number): number => {
      heap.bytes.writeInt32LE(0, to);
      return OK;
    },
    xFileControl: (): number => NOTFOUND,
    xSectorSize: (): number => PAGE_SIZE,
    xDeviceCharacteristics: (): number => POWERSAFE_OVERWRITE,
  };
}

/** `sqlite3_vfs`. `open` returns whether there is a database of the name. */
function systemMethods(heap: Heap, open: (name: string, at: number) => boolean) {
  return {
    xOpen: (_: number, name: number, at: number, flags: number, outFlags: number): number => {
      // No methods: after a failure the engine does not close the file.
      heap.bytes.writeInt32LE(0, at);
      if (name === 0 || !open(heap.readCString(name), at)) return CANTOPEN;
      if (outFlags !== 0) heap.bytes.writeInt32LE(flags, outFlags);
      return OK;
    },
    xDelete: ok,
    xAccess: (_vfs: number, _name: number, _flags: number, to: number): number => {
      heap.bytes.writeInt32LE(0, to);
      return OK;
    },
    xFullPathname: (_: number, name: number, length: number, to: number): number => {
      const end = heap.bytes.indexOf(0, name) + 1;
      if (end - name > length) return CANTOPEN;
      heap.bytes.copyWithin(to, name, end);
      return OK;
    },
    xRandomness: (_: number, length: number, to: number): number => {
      randomFillSync(heap.bytes, to, length);
      return length;
    },
    xSleep: (_: number, microseconds: number): number => microseconds,
    xCurrentTime: (_: number, to: number): number => {
      heap.bytes.writeDoubleLE((JULIAN_EPOCH_MS + Date.now()) / 86_400_000, to);
      return OK;
    },
    xCurrentTimeInt64: (_: number, to: number): number => {
      heap.bytes.writeBigInt64LE(BigInt(JULIAN_EPOCH_MS + Date.now()), to);
      return OK;
    },
    xGetLastError: ok,
  };
}
