/**
 * The SQLite engine: one WebAssembly instance per process, called through its raw exports, because
 * the package's wrappers convert every argument, which costs more than most calls do.
 *
 * Owns the views of the heap, scratch memory for arguments, and SQLite's callbacks: the page VFS,
 * the authorizer, and the progress handler that ends a statement at its time limit. Each is
 * installed once for all databases. Used by `Connection` and `Statement`; nothing else reads or
 * writes the heap.
 */
import type { Sqlite3Static } from "@sqlite.org/sqlite-wasm";
import { QueryTooLong } from "../../core/database/Databases.ts";
import type { EngineExports } from "./EngineExports.ts";
import { lasting, refusal, refusalToReader, type Lasting } from "./authorize.ts";
import type { PageFile } from "./PageFile.ts";
import { installPageVfs } from "./pageVfs.ts";
import { RESULT_INTERRUPT, SqliteError } from "./SqliteError.ts";

export const SQLITE_OK = 0;
const SQLITE_DENY = 1;

/** Scratch for statements and parameters; larger ones are allocated for the call. */
const SCRATCH_BYTES = 64 * 1024;
/** Steps of SQLite's virtual machine between checks of the clock: about 100 µs. */
const STEPS_PER_LOOK = 10_000;
/** UTF-8 takes at most this many bytes per UTF-16 unit. */
const UTF8_BYTES_PER_UNIT = 3;

export class Engine {
  readonly exports: EngineExports;
  /** The name of a result code: `SQLITE_BUSY`. Undefined for an unknown one. */
  readonly codeName: (code: number) => string | undefined;
  /** The name of the page VFS, as a C string. */
  readonly vfsName: number;
  /** Function pointer for `sqlite3_set_authorizer`. */
  readonly authorizer: number;
  /** The authorizer's message for the last refused statement. */
  refused: string | undefined;
  /** The lasting effect of the statements prepared since this was cleared. */
  lasting: Lasting | undefined;
  /** The largest size of SQLite's heap; a statement that needs more fails. Undefined: 2 GiB. */
  hardHeapBytesMax: number | undefined;
  /** True while the runtime's own SQL is prepared, for which the authorizer allows everything. */
  internal = false;
  /** True while a statement runs. SQL that SQLite prepares then (VACUUM, FTS5) may do more. */
  stepping = false;

  /** True while a statement that may only read is prepared or runs. */
  private onlyReads = false;
  /** Function pointer for `sqlite3_progress_handler`: ends the statement after `deadlineMs`. */
  private readonly progress: number;
  /** When a statement that only reads has to end, as a `performance.now()`. */
  private deadlineMs = Infinity;
  private readonly memory: WebAssembly.Memory;
  private heap: Buffer;
  private readonly files = new Map<string, PageFile>();
  private nextName = 1;
  private readonly scratch: number;
  /** Two 64-bit integers that SQLite writes its status to. */
  private readonly status: number;
  private scratchUsed = 0;
  private readonly allocated: number[] = [];

  constructor(sqlite3: Sqlite3Static) {
    const { wasm, capi } = sqlite3;
    this.codeName = (code) => capi.sqlite3_js_rc_str(code);
    this.exports = wasm.exports as unknown as EngineExports;
    this.memory = (wasm as unknown as { readonly memory: WebAssembly.Memory }).memory;
    this.heap = Buffer.from(this.memory.buffer);
    this.scratch = this.allocate(SCRATCH_BYTES);
    this.status = this.allocate(16);
    this.vfsName = installPageVfs(sqlite3, this, (name) => this.files.get(name));
    this.authorizer = wasm.installFunction(
      "ipipppp" as never,
      ((_: number, action: number, first: number, second: number, database: number) =>
        this.authorize(action, first, second, database)) as never,
    ) as unknown as number;
    this.progress = wasm.installFunction(
      "ip" as never,
      (() => (performance.now() > this.deadlineMs ? 1 : 0)) as never,
    ) as unknown as number;
  }

  /** The heap. It moves when it grows, so callers read this after every call that may allocate. */
  get bytes(): Buffer {
    if (this.heap.buffer !== this.memory.buffer) this.heap = Buffer.from(this.memory.buffer);
    return this.heap;
  }

  /** Bytes that SQLite has allocated for all databases. */
  get memoryUsed(): number {
    const at = this.status;
    this.exports.sqlite3_status64(0, at, at + 8, 0);
    return Number(this.bytes.readBigInt64LE(at));
  }

  /**
   * Runs `act`, in which SQL of the connection `db` may only read. Throws `QueryTooLong` if its
   * statement takes longer than `timeMsMax`.
   */
  asReader<A>(db: number, timeMsMax: number, act: () => A): A {
    this.onlyReads = true;
    this.deadlineMs = performance.now() + timeMsMax;
    this.exports.sqlite3_progress_handler(db, STEPS_PER_LOOK, this.progress, 0);
    try {
      return act();
    } catch (error) {
      if (error instanceof SqliteError && (error.resultCode & 0xff) === RESULT_INTERRUPT)
        throw new QueryTooLong();
      throw error;
    } finally {
      this.exports.sqlite3_progress_handler(db, 0, 0, 0);
      this.onlyReads = false;
    }
  }

  /** Registers `file` and returns the name under which SQLite opens it. */
  addFile(file: PageFile): string {
    const name = `agent-${this.nextName++}`;
    this.files.set(name, file);
    return name;
  }

  removeFile(name: string): void {
    this.files.delete(name);
  }

  readInt(at: number): number {
    return this.bytes.readInt32LE(at);
  }

  readText(at: number, length: number): string {
    return length === 0 ? "" : this.bytes.toString("utf8", at, at + length);
  }

  readCString(at: number): string {
    if (at === 0) return "";
    const { bytes } = this;
    return bytes.toString("utf8", at, bytes.indexOf(0, at));
  }

  /** Writes text and a NUL to memory that is valid until `release`. `length` is without the NUL. */
  putText(text: string): { readonly at: number; readonly length: number } {
    const at = this.put(text.length * UTF8_BYTES_PER_UNIT + 1);
    const length = this.bytes.write(text, at, "utf8");
    this.bytes[at + length] = 0;
    return { at, length };
  }

  putBytes(bytes: Uint8Array): number {
    const at = this.put(bytes.length + 1);
    this.bytes.set(bytes, at);
    return at;
  }

  /** Returns memory that is valid until `release`, aligned to 8 bytes. */
  put(bytes: number): number {
    const size = (bytes + 7) & ~7;
    if (this.scratchUsed + size <= SCRATCH_BYTES) {
      const at = this.scratch + this.scratchUsed;
      this.scratchUsed += size;
      return at;
    }
    const at = this.allocate(size);
    this.allocated.push(at);
    return at;
  }

  /** Frees the memory of all `put` calls since the last release. */
  release(): void {
    this.scratchUsed = 0;
    while (this.allocated.length > 0) this.exports.sqlite3_free(this.allocated.pop()!);
  }

  private allocate(bytes: number): number {
    const at = this.exports.sqlite3_malloc(bytes);
    if (at === 0) throw new RangeError(`SQLite's heap has no room for ${bytes} bytes`);
    return at;
  }

  private authorize(action: number, first: number, second: number, database: number): number {
    if (this.internal) return SQLITE_OK;
    const text =
      (at: number): (() => string) =>
      () =>
        this.readCString(at);
    const orNone = (at: number): (() => string) | undefined => (at === 0 ? undefined : text(at));
    const message = this.onlyReads
      ? refusalToReader(action, text(first), this.stepping)
      : refusal(action, text(first), orNone(second), this.stepping);
    if (message === undefined) {
      this.lasting = lasting(action, text(first), orNone(second), orNone(database)) ?? this.lasting;
      return SQLITE_OK;
    }
    this.refused = message;
    return SQLITE_DENY;
  }
}

/** Shared by all layers of the process, because the heap never shrinks and loading is slow. */
let loaded: Promise<Engine> | undefined;

/** Loads the engine at the first call; later calls return the same one. */
export function loadEngine(): Promise<Engine> {
  return (loaded ??= import("@sqlite.org/sqlite-wasm")
    .then(({ default: init }) => init())
    .then((sqlite3) => new Engine(sqlite3)));
}
