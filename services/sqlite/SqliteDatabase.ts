/**
 * The `AgentDatabase` on sqlite-wasm. Joins the committed image, the page file over it, the agent's
 * cache file and the connection, which is opened by the first `query` or `transaction`, and again
 * after `OpenConnections` closed it.
 *
 * Each part is created when it is first needed. Most of the thousands of agents in memory use no
 * SQL, and have only this object.
 *
 * After `LocalImageCorrupt`, every call throws it again, because SQLite's cache may mix pages read
 * earlier with pages that can't be read. Created by `sqliteDatabases`.
 */
import type {
  AgentDatabase,
  OpenTransaction,
  ReadOptions,
  SqlResult,
  SqlValue,
} from "../../core/database/Databases.ts";
import type { AgentId, Sequence } from "../../schemas/Address.ts";
import type { CacheFile } from "./CacheFile.ts";
import { Connection, type ConnectionSettings } from "./Connection.ts";
import type { OpenDatabase } from "./OpenConnections.ts";
import type { ImageStore } from "./ImageStore.ts";
import type { PageFile } from "./PageFile.ts";
import { PAGE_SIZE } from "./PagePool.ts";

export class SqliteDatabase implements AgentDatabase, OpenDatabase {
  private readonly store: ImageStore;
  private readonly id: AgentId;
  private readonly ownsFiles: boolean;
  /** Undefined while the image is empty and nothing was written. */
  private file: PageFile | undefined;
  private cache: CacheFile | undefined;
  private connection: Connection | undefined;
  /** Settings of the connection that was closed to free memory, for the next one. */
  private settings: ConnectionSettings | undefined;
  private closed = false;
  usedSince = false;

  /** `own.made` is set if the cache has an image. */
  constructor(
    store: ImageStore,
    id: AgentId,
    own: {
      /** This database has the agent's cache file to itself until it is closed. */
      readonly ownsFiles: boolean;
      readonly made?: { readonly file: PageFile; readonly cache: CacheFile | undefined };
    },
  ) {
    this.store = store;
    this.id = id;
    this.ownsFiles = own.ownsFiles;
    this.file = own.made?.file;
    this.cache = own.made?.cache;
  }

  query(sql: string, params: ReadonlyArray<SqlValue | boolean>, rowsMax?: number): SqlResult {
    return this.connect().query(sql, params, rowsMax);
  }

  read(sql: string, options: ReadOptions): SqlResult {
    return this.connect().read(sql, options);
  }

  create(ddl: string): void {
    if (!this.isEmpty || this.connection !== undefined) this.query(ddl, []);
    else
      this.guarded(() => {
        const pages = this.store.pagesOf(ddl);
        this.pages().write(pages, 0, pages.length, 0);
      });
  }

  transaction<A>(f: () => A): A {
    return this.connect().transaction(f);
  }

  beginTransaction(): OpenTransaction {
    return this.connect().beginTransaction();
  }

  get isEmpty(): boolean {
    return this.file === undefined || this.file.count === 0;
  }

  mayHaveTable(text: string): boolean {
    return this.guarded(() => this.file?.mayHaveTable(text) ?? false);
  }

  get uncommittedBytesMax(): number {
    return this.file?.uncommittedBytesMax ?? Infinity;
  }

  set uncommittedBytesMax(bytesMax: number) {
    // Most agents use no SQL and have no page file.
    if (this.file === undefined && bytesMax === Infinity) return;
    const file = this.pages();
    file.uncommittedBytesMax = bytesMax;
    file.overflowed = false;
  }

  get overflowed(): boolean {
    return this.file?.overflowed ?? false;
  }

  get writes(): number {
    return this.file?.writes ?? 0;
  }

  get dirty(): boolean {
    return this.file?.dirty ?? false;
  }

  freeze(): { readonly delta: Uint8Array; readonly pages: number } | undefined {
    return this.guarded(() => this.file?.freeze());
  }

  committed(): void {
    this.guarded(() => this.pages().committed());
  }

  apply(delta: Uint8Array): void {
    this.guarded(() => {
      this.mustNotBeOpen("apply");
      this.pages().image.apply(delta);
    });
  }

  restore(image: Uint8Array): void {
    this.guarded(() => {
      this.mustNotBeOpen("restore");
      if (this.file !== undefined || image.length > 0) this.pages().image.replace(image);
    });
  }

  image(): Uint8Array {
    return this.guarded(() => this.file?.image.copy() ?? new Uint8Array(0));
  }

  get imageBytes(): number {
    return (this.file?.image.count ?? 0) * PAGE_SIZE;
  }

  get memoryBytes(): number {
    return (this.file?.bytes ?? 0) + (this.connection?.memoryBytes ?? 0);
  }

  close(keep?: { readonly seq: Sequence; readonly core: Uint8Array }): void {
    if (this.closed) return;
    this.closed = true;
    this.disconnect();
    const file = keep === undefined ? this.file : this.pages();
    file?.abandon();
    try {
      if (keep !== undefined && file?.failure === undefined) file?.image.save(keep.seq, keep.core);
      else this.files()?.remove();
      if (this.ownsFiles) this.store.filed(this.id, { trusted: true });
    } catch {
      // The disk refused. The next activation replays the journal instead. The remaining file has
      // no meta, or an older one whose pages did not change: a correct image, but not the latest.
      this.cache?.release();
      this.store.filed(this.id, { trusted: false });
    }
    file?.image.drop();
    if (this.ownsFiles) this.store.free(this.id);
  }

  /**
   * As `OpenDatabase`. Uncommitted writes belong to a running turn, which may still ask the
   * connection what it changed.
   */
  disconnectIfIdle(): boolean {
    const { connection } = this;
    if (connection === undefined || !connection.mayClose || this.dirty) return false;
    this.settings = connection.settings;
    this.disconnect();
    return true;
  }

  private files(): CacheFile | undefined {
    return this.ownsFiles ? (this.cache ??= this.store.cacheOf(this.id)) : undefined;
  }

  private pages(): PageFile {
    return (this.file ??= this.store.pageFile(this.id, this.files()));
  }

  private connect(): Connection {
    this.mustBeUsable();
    const { connections, engine } = this.store;
    if (this.connection !== undefined) {
      connections.used(this);
      return this.connection;
    }
    connections.makeRoom();
    this.connection = new Connection(engine, this.pages(), this.settings);
    this.settings = undefined;
    connections.add(this);
    return this.connection;
  }

  private disconnect(): void {
    this.store.connections.remove(this);
    this.connection?.close();
    this.connection = undefined;
  }

  private guarded<A>(act: () => A): A {
    this.mustBeUsable();
    try {
      return act();
    } catch (error) {
      if (isCorrupt(error)) this.pages().failure ??= error;
      throw error;
    }
  }

  private mustBeUsable(): void {
    if (this.closed) throw new Error("the database is closed");
    if (this.file?.failure !== undefined) throw this.file.failure;
  }

  /** Closes the connection, whose cache has older pages; the next query opens another one. */
  private mustNotBeOpen(what: string): void {
    if (this.file?.settled !== false) this.disconnectIfIdle();
    if (this.connection !== undefined || this.file?.settled === false)
      throw new Error(`${what}: not possible in a transaction or with uncommitted writes`);
  }
}

const isCorrupt = (error: unknown): boolean =>
  error instanceof Error && "_tag" in error && error._tag === "LocalImageCorrupt";
