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

/** Installs the VFS. Returns its name, as a C string. */
export function installPageVfs(
  sqlite3: Sqlite3Static,
  heap: Heap,
  find: (name: string) => PageFile | undefined,
): number {
  const { capi, wasm } = sqlite3;
  const open: (PageFile | undefined)[] = [undefined];
  const free: number[] = [];
  const io = new capi.sqlite3_io_methods();
  const vfs = new capi.sqlite3_vfs();
  const fileOf = (at: number): PageFile => open[heap.bytes.readInt32LE(at + 4)]!;
  const guarded = (file: PageFile, code: number, act: () => number): number => {
    try {
      return act();
    } catch (error) {
      file.failure ??= error;
      return code;
    }
  };
  const ok = (): number => OK;

  const ioMethods = {
    xClose: (at: number): number => {
      const number = heap.bytes.readInt32LE(at + 4);
      open[number] = undefined;
      free.push(number);
      return OK;
    },
    xRead: (at: number, to: number, length: number, offset: bigint): number => {
      const file = fileOf(at);
      return guarded(file, IOERR_READ, () =>
        file.read(heap.bytes, to, length, Number(offset)) ? OK : IOERR_SHORT_READ,
      );
    },
    xWrite: (at: number, from: number, length: number, offset: bigint): number => {
      const file = fileOf(at);
      return guarded(file, IOERR_WRITE, () =>
        file.write(heap.bytes, from, length, Number(offset)) ? OK : RESULT_FULL,
      );
    },
    xTruncate: (at: number, size: bigint): number => {
      const file = fileOf(at);
      return guarded(file, IOERR_TRUNCATE, () => {
        file.truncate(Number(size));
        return OK;
      });
    },
    xFileSize: (at: number, to: number): number => {
      heap.bytes.writeBigInt64LE(BigInt(fileOf(at).count * PAGE_SIZE), to);
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

  const vfsMethods = {
    xOpen: (_: number, name: number, at: number, flags: number, outFlags: number): number => {
      const file = name === 0 ? undefined : find(heap.readCString(name));
      heap.bytes.writeInt32LE(0, at);
      if (file === undefined) return CANTOPEN;
      const number = free.pop() ?? open.length;
      open[number] = file;
      heap.bytes.writeInt32LE(io.pointer as number, at);
      heap.bytes.writeInt32LE(number, at + 4);
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

  // The package's types lack the `$` that its struct members have.
  (io as unknown as { $iVersion: number }).$iVersion = 1;
  vfs.$iVersion = 2;
  vfs.$szOsFile = FILE_BYTES;
  vfs.$mxPathname = PATH_BYTES_MAX;
  const name = wasm.allocCString(NAME, false);
  vfs.$zName = name;
  sqlite3.vfs.installVfs({
    io: { struct: io, methods: ioMethods as never },
    // Also the default VFS, from which SQLite takes its random seeds; they then come from the
    // system.
    vfs: { struct: vfs, methods: vfsMethods as never, asDefault: true },
  });
  return Number(name);
}
