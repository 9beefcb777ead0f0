/**
 * The `Databases` adapter on sqlite-wasm. A process has one engine; each layer has one page pool,
 * delta writer and set of open files (`ImageStore`). With a folder, images are cached in it between
 * activations, and large ones are stored in it while open. Without a folder everything is in
 * memory, for tests and for tools that only read.
 *
 * When the layer's scope closes, descriptors are closed and open databases are dropped.
 */
import * as Effect from "effect/Effect";
import * as Layer from "effect/Layer";
import {
  Databases, type DatabasesShape, type OpenedDatabase,
} from "../../core/database/Databases.ts"; // prettier-ignore
import { loadEngine, type Engine } from "./Engine.ts";
import { ImageStore } from "./ImageStore.ts";
import { SQLITE_HEAP_BYTES_MAX } from "./OpenConnections.ts";
import { RESIDENT_BYTES_MAX } from "./PageImage.ts";
import { SqliteDatabase } from "./SqliteDatabase.ts";

/**
 * `hardHeapBytesMax` of what reads for operators and code. A host has it beside its agents. Sorting
 * 100,000 states of 2 KB stays below it.
 */
export const READER_HEAP_BYTES_MAX = 256 * 2 ** 20;

interface SqliteDatabasesOptions {
  /** Folder of the local cache, created when absent. Undefined: no cache. */
  readonly folder: string | undefined;
  /**
   * Disk space for images in `folder` of agents that are not in memory. Past it, those that were
   * used longest ago are removed. Default: no limit.
   */
  readonly folderBytesMax?: number;
  /** Memory for committed pages of one agent before they move to its file. Default 256 KiB. */
  readonly residentBytesMax?: number;
  /** SQLite's heap past which idle connections are closed. Default 1 GiB, of at most 2 GiB. */
  readonly heapBytesMax?: number;
  /**
   * For a process or thread that only reads: the largest size of SQLite's heap, which all its
   * databases share. A statement that needs more fails. Default: the engine's limit, 2 GiB.
   */
  readonly hardHeapBytesMax?: number;
  /** False does not load SQLite: pages can be replayed, but a query throws. Default: true. */
  readonly sql?: boolean;
}

/** Stands in for an engine that is not loaded. */
const NO_ENGINE = new Proxy({} as Engine, {
  get: () => {
    throw new Error("this process was opened with sql: false: it replays pages and runs no SQL");
  },
});

/** The adapter, and a function that closes it. Rejects only if the engine can't be loaded. */
export async function openSqliteDatabases({
  folder,
  folderBytesMax,
  residentBytesMax = RESIDENT_BYTES_MAX,
  heapBytesMax = SQLITE_HEAP_BYTES_MAX,
  hardHeapBytesMax,
  sql = true,
}: SqliteDatabasesOptions): Promise<{
  readonly databases: DatabasesShape;
  readonly close: () => void;
}> {
  const engine = sql ? await loadEngine() : NO_ENGINE;
  if (sql && hardHeapBytesMax !== undefined) engine.hardHeapBytesMax = hardHeapBytesMax;
  const store = new ImageStore(engine, folder, {
    residentBytesMax,
    heapBytesMax,
    ...(folderBytesMax !== undefined && { folderBytesMax }),
  });
  return { databases: databasesOf(store), close: () => store.close() };
}

export const sqliteDatabases = (options: SqliteDatabasesOptions): Layer.Layer<Databases> =>
  Layer.effect(
    Databases,
    Effect.acquireRelease(
      Effect.promise(() => openSqliteDatabases(options)),
      ({ close }) => Effect.sync(close),
    ).pipe(Effect.map(({ databases }) => databases)),
  );

const databasesOf = (store: ImageStore): DatabasesShape => ({
  open: (id): OpenedDatabase => {
    const ownsFiles = store.take(id);
    const cache = ownsFiles ? store.cacheOf(id) : undefined;
    const meta = store.trusts(id) ? cache?.readMeta() : undefined;
    if (meta === undefined) return { database: new SqliteDatabase(store, id, { ownsFiles }) };
    const made = { file: store.pageFile(id, cache, meta.crcs), cache };
    return {
      database: new SqliteDatabase(store, id, { ownsFiles, made }),
      cached: { seq: meta.seq, core: meta.core },
    };
  },
  discard: (id) => store.discard(id),
  memoryBytes: () => store.memoryBytes,
  unusedBytes: () => store.unusedBytes,
});
