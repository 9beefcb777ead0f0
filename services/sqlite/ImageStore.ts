/**
 * The resources that the databases of one layer share: the engine, the page pool, the delta writer,
 * open files and connections, the list of cache files in use, and their `FolderLimit`. Creates an
 * agent's page file when its database first needs one, and keeps the initial pages of the runtime's
 * own tables.
 *
 * Two databases never share files: if an open agent is opened again, the second database is in
 * memory only. Created by `sqliteDatabases`; used by `SqliteDatabase`.
 */
import {
  addressKey,
  type AgentClass,
  type AgentId,
  type AgentName,
} from "../../schemas/Address.ts";
import { PageDeltaWriter } from "../../schemas/PageDelta.ts";
import { CacheFile } from "./CacheFile.ts";
import { cachePath } from "./cachePath.ts";
import { Connection } from "./Connection.ts";
import type { Engine } from "./Engine.ts";
import { FolderLimit } from "./FolderLimit.ts";
import { OpenConnections } from "./OpenConnections.ts";
import { OpenFiles } from "./OpenFiles.ts";
import { PageFile } from "./PageFile.ts";
import { PageImage } from "./PageImage.ts";
import { PAGE_SIZE, PagePool } from "./PagePool.ts";

/** The owner of pages that belong to no agent. */
const NOBODY: AgentId = { class: "" as AgentClass, name: "" as AgentName };

export class ImageStore {
  readonly engine: Engine;
  readonly connections: OpenConnections;
  private readonly folder: string | undefined;
  private readonly residentBytesMax: number;
  private readonly files = new OpenFiles();
  /** For all cache files: one function, because each agent that wakes makes one of them. */
  private readonly onGrown: ((bytes: number) => void) | undefined;
  private readonly pool = new PagePool();
  private readonly writer = new PageDeltaWriter(PAGE_SIZE);
  /** Names of agents whose files are in use, by class: that saves a key string per agent. */
  private readonly inUse = new Map<string, Set<string>>();

  /** Pages by the statement that creates them in an empty database. */
  private readonly initialPages = new Map<string, Uint8Array>();
  /** Agents whose file could be neither written nor removed, and may be outdated. */
  private readonly distrusted = new Set<string>();

  constructor(
    engine: Engine,
    folder: string | undefined,
    limits: {
      readonly residentBytesMax: number;
      readonly heapBytesMax: number;
      /** Default: no limit. */
      readonly folderBytesMax?: number;
    },
  ) {
    this.engine = engine;
    this.connections = new OpenConnections(engine, limits.heapBytesMax);
    this.folder = folder;
    this.residentBytesMax = limits.residentBytesMax;
    if (folder === undefined || limits.folderBytesMax === undefined) return;
    const limit = new FolderLimit(folder, limits.folderBytesMax, (id) => {
      const isIdle = !this.isInUse(id);
      if (isIdle) this.discard(id);
      return isIdle;
    });
    this.onGrown = (bytes) => limit.grew(bytes);
  }

  isInUse(id: AgentId): boolean {
    return this.inUse.get(id.class)?.has(id.name) === true;
  }

  /** Reserves the agent's file. Returns false if the layer has no folder or the file is in use. */
  take(id: AgentId): boolean {
    if (this.folder === undefined || this.isInUse(id)) return false;
    const names = this.inUse.get(id.class);
    if (names === undefined) this.inUse.set(id.class, new Set([id.name]));
    else names.add(id.name);
    return true;
  }

  /** Ends the reservation of `take`. */
  free(id: AgentId): void {
    this.inUse.get(id.class)?.delete(id.name);
  }

  /** Records whether an agent's file was written or removed as intended. */
  filed(id: AgentId, { trusted }: { readonly trusted: boolean }): void {
    if (!trusted) this.distrusted.add(addressKey(id));
    else if (this.distrusted.size > 0) this.distrusted.delete(addressKey(id));
  }

  /** Whether the content of the agent's file may be used. */
  trusts(id: AgentId): boolean {
    return this.distrusted.size === 0 || !this.distrusted.has(addressKey(id));
  }

  /** The agent's cache file, or undefined without a folder. */
  cacheOf(id: AgentId): CacheFile | undefined {
    const { folder, files, onGrown } = this;
    return folder === undefined
      ? undefined
      : new CacheFile(id, cachePath(folder, id), files, onGrown);
  }

  /** As `DatabasesShape.discard`. */
  discard(id: AgentId): void {
    // A successor has it open, and took over the file after the discarded agent had released it.
    if (this.isInUse(id)) return;
    try {
      this.cacheOf(id)?.remove();
      this.filed(id, { trusted: true });
    } catch {
      // As in `SqliteDatabase.close`: the file stays, and is not trusted.
      this.filed(id, { trusted: false });
    }
  }

  /** Creates a page file. `crcs`: checksums of a clean cache file's pages, page 1 first. */
  pageFile(id: AgentId, cache: CacheFile | undefined, crcs?: Uint32Array): PageFile {
    const { pool, writer, residentBytesMax } = this;
    const image = new PageImage({
      id,
      pool,
      file: cache,
      residentBytesMax,
      ...(crcs === undefined ? {} : { crcs }),
    });
    return new PageFile(image, pool, writer);
  }

  /** The pages of an empty database after `ddl`. Cached: SQLite takes 100 µs to create them. */
  pagesOf(ddl: string): Uint8Array {
    let pages = this.initialPages.get(ddl);
    if (pages === undefined) {
      const file = this.pageFile(NOBODY, undefined);
      const connection = new Connection(this.engine, file);
      try {
        connection.query(ddl, []);
        pages = new Uint8Array(file.count * PAGE_SIZE);
        file.read(pages, 0, pages.length, 0);
      } finally {
        connection.close();
        file.abandon();
      }
      this.initialPages.set(ddl, pages);
    }
    return pages;
  }

  /** Bytes of this layer's pages and of SQLite's heap, which all layers share. */
  get memoryBytes(): number {
    return this.pool.used * PAGE_SIZE + this.engine.memoryUsed;
  }

  /** Bytes that it and SQLite's heap have reserved and do not use. */
  get unusedBytes(): number {
    return this.pool.unused * PAGE_SIZE + this.engine.bytes.length - this.engine.memoryUsed;
  }

  close(): void {
    this.files.closeAll();
  }
}
