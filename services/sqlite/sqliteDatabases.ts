/**
 * The `Databases` adapter on sqlite-wasm. One engine a process; one page pool, delta writer and set of
 * open files a layer. With a folder, images are cached in it between activations and large ones live in it;
 * without one everything is in memory (tests, and tools that only read).
 *
 * An agent that is open already and opened again gets a second database in memory only: two never share
 * files. When the layer's scope closes, descriptors are closed and what is still open is dropped.
 */
import { Effect, Layer } from "effect";
import {
  Databases, type DatabasesShape, type OpenedDatabase,
} from "../../core/database/Databases.ts"; // prettier-ignore
import { addressKey, type AgentId } from "../../schemas/Address.ts";
import { PageDeltaWriter } from "../../schemas/PageDelta.ts";
import { CacheFile } from "./CacheFile.ts";
import { cachePath } from "./cachePath.ts";
import { loadEngine, type Engine } from "./Engine.ts";
import { OpenFiles } from "./OpenFiles.ts";
import { PageFile } from "./PageFile.ts";
import { PageImage, RESIDENT_BYTES_MAX } from "./PageImage.ts";
import { PAGE_SIZE, PagePool } from "./PagePool.ts";
import { SqliteDatabase } from "./SqliteDatabase.ts";

export interface SqliteDatabasesOptions {
  /** The local cache; made when absent. Undefined: no cache. */
  readonly folder: string | undefined;
  /** Memory for committed pages of one agent before they move to its file. Default 256 KiB. */
  readonly residentBytesMax?: number;
}

/** The adapter as a plain object, and how to end it. Rejects only if the engine can't be loaded. */
export async function openSqliteDatabases(
  options: SqliteDatabasesOptions,
): Promise<{ readonly databases: DatabasesShape; readonly close: () => void }> {
  const engine = await loadEngine();
  const files = new OpenFiles();
  return { databases: databasesOf(engine, files, options), close: () => files.closeAll() };
}

export const sqliteDatabases = (options: SqliteDatabasesOptions): Layer.Layer<Databases> =>
  Layer.effect(
    Databases,
    Effect.acquireRelease(
      Effect.promise(() => openSqliteDatabases(options)),
      ({ close }) => Effect.sync(close),
    ).pipe(Effect.map(({ databases }) => databases)),
  );

function databasesOf(
  engine: Engine,
  files: OpenFiles,
  { folder, residentBytesMax = RESIDENT_BYTES_MAX }: SqliteDatabasesOptions,
): DatabasesShape {
  const pool = new PagePool();
  const writer = new PageDeltaWriter(PAGE_SIZE);
  /** Agents whose files are in use. */
  const open = new Set<string>();
  const cacheOf = (id: AgentId): CacheFile | undefined =>
    folder === undefined ? undefined : new CacheFile(id, cachePath(folder, id), files);

  return {
    open: (id): OpenedDatabase => {
      const key = addressKey(id);
      const cache = open.has(key) ? undefined : cacheOf(id);
      if (cache !== undefined) open.add(key);
      const meta = cache?.readMeta();
      const image = new PageImage({
        id,
        pool,
        file: cache,
        residentBytesMax,
        ...(meta === undefined ? {} : { crcs: meta.crcs }),
      });
      const database = new SqliteDatabase({
        engine,
        file: new PageFile(image, pool, writer),
        cache,
        onClose: () => {
          if (cache !== undefined) open.delete(key);
        },
      });
      return meta === undefined
        ? { database }
        : { database, cached: { seq: meta.seq, core: meta.core } };
    },
    discard: (id) => {
      if (open.has(addressKey(id)))
        throw new Error(`discard: ${addressKey(id)} is open; close it first`);
      cacheOf(id)?.remove();
    },
  };
}
