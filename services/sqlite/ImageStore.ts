/**
 * What the databases of one layer share: the engine, the page pool, the delta writer, the open files and connections, and
 * whose cache files are in use. Makes an agent's page file when its database first needs one, and keeps the pages that the
 * runtime's own tables begin with.
 *
 * An agent that is open already and opened again gets a second database in memory only: two never share
 * files. Made by `sqliteDatabases`; used by `SqliteDatabase`.
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
import { OpenConnections } from "./OpenConnections.ts";
import { OpenFiles } from "./OpenFiles.ts";
import { PageFile } from "./PageFile.ts";
import { PageImage } from "./PageImage.ts";
import { PAGE_SIZE, PagePool } from "./PagePool.ts";

/** Whose pages belong to no agent. */
const NOBODY: AgentId = { class: "" as AgentClass, name: "" as AgentName };

export class ImageStore {
  readonly engine: Engine;
  readonly connections: OpenConnections;
  private readonly folder: string | undefined;
  private readonly residentBytesMax: number;
  private readonly files = new OpenFiles();
  private readonly pool = new PagePool();
  private readonly writer = new PageDeltaWriter(PAGE_SIZE);
  /** Names of agents whose files are in use, by class: so that none of them costs a key of its own. */
  private readonly inUse = new Map<string, Set<string>>();

  /** By the statement that made them of an empty database. */
  private readonly made = new Map<string, Uint8Array>();
  /** Agents whose file could be neither written nor removed: what it says may be of before. */
  private readonly distrusted = new Set<string>();

  constructor(
    engine: Engine,
    folder: string | undefined,
    limits: { readonly residentBytesMax: number; readonly heapBytesMax: number },
  ) {
    this.engine = engine;
    this.connections = new OpenConnections(engine, limits.heapBytesMax);
    this.folder = folder;
    this.residentBytesMax = limits.residentBytesMax;
  }

  isInUse(id: AgentId): boolean {
    return this.inUse.get(id.class)?.has(id.name) === true;
  }

  /** Takes the agent's files; false when there are none, or they are in use. */
  take(id: AgentId): boolean {
    if (this.folder === undefined || this.isInUse(id)) return false;
    const names = this.inUse.get(id.class);
    if (names === undefined) this.inUse.set(id.class, new Set([id.name]));
    else names.add(id.name);
    return true;
  }

  free(id: AgentId): void {
    this.inUse.get(id.class)?.delete(id.name);
  }

  /** A file is there as it was left, or gone; or the disk refused either. */
  filed(id: AgentId, { trusted }: { readonly trusted: boolean }): void {
    if (!trusted) this.distrusted.add(addressKey(id));
    else if (this.distrusted.size > 0) this.distrusted.delete(addressKey(id));
  }

  trusts(id: AgentId): boolean {
    return this.distrusted.size === 0 || !this.distrusted.has(addressKey(id));
  }

  /** Undefined without a folder. */
  cacheOf(id: AgentId): CacheFile | undefined {
    const { folder } = this;
    return folder === undefined ? undefined : new CacheFile(id, cachePath(folder, id), this.files);
  }

  /** `crcs`: of the pages in a clean cache file, page 1 first. */
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

  /** Of an empty database after `ddl`: SQLite takes some 100 µs to make them. */
  pagesOf(ddl: string): Uint8Array {
    let pages = this.made.get(ddl);
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
      this.made.set(ddl, pages);
    }
    return pages;
  }

  /** Pages, and SQLite's heap, which is all layers'. */
  get memoryBytes(): number {
    return this.pool.used * PAGE_SIZE + this.engine.memoryUsed;
  }

  close(): void {
    this.files.closeAll();
  }
}
