/**
 * `AgentDatabase` on sqlite-wasm: joins the committed image, the page file over it, the connection
 * (opened at the first `query` or `transaction`) and the agent's cache file.
 *
 * After `LocalImageCorrupt` every call throws it again: pages already read may be in SQLite's cache
 * beside others that can't be, so there is nothing to go on with. Made by `sqliteDatabases`.
 */
import type { AgentDatabase, SqlResult, SqlValue } from "../../core/database/Databases.ts";
import type { Sequence } from "../../schemas/Address.ts";
import type { CacheFile } from "./CacheFile.ts";
import { Connection } from "./Connection.ts";
import type { Engine } from "./Engine.ts";
import type { PageFile } from "./PageFile.ts";
import { PAGE_SIZE } from "./PagePool.ts";

export class SqliteDatabase implements AgentDatabase {
  private readonly engine: Engine;
  private readonly file: PageFile;
  private readonly cache: CacheFile | undefined;
  private readonly onClose: () => void;
  private connection: Connection | undefined;
  private closed = false;

  constructor(options: {
    readonly engine: Engine;
    readonly file: PageFile;
    readonly cache: CacheFile | undefined;
    readonly onClose: () => void;
  }) {
    this.engine = options.engine;
    this.file = options.file;
    this.cache = options.cache;
    this.onClose = options.onClose;
  }

  query(sql: string, params: ReadonlyArray<SqlValue | boolean>): SqlResult {
    return this.connect().query(sql, params);
  }

  transaction<A>(f: () => A): A {
    return this.connect().transaction(f);
  }

  get dirty(): boolean {
    return this.file.dirty;
  }

  freeze(): { readonly delta: Uint8Array; readonly pages: number } | undefined {
    return this.guarded(() => this.file.freeze());
  }

  committed(): void {
    this.guarded(() => this.file.committed());
  }

  apply(delta: Uint8Array): void {
    this.guarded(() => {
      this.mustNotBeOpen("apply");
      this.file.image.apply(delta);
    });
  }

  restore(image: Uint8Array): void {
    this.guarded(() => {
      this.mustNotBeOpen("restore");
      this.file.image.replace(image);
    });
  }

  image(): Uint8Array {
    return this.guarded(() => this.file.image.copy());
  }

  get imageBytes(): number {
    return this.file.image.count * PAGE_SIZE;
  }

  get memoryBytes(): number {
    return this.file.bytes + (this.connection?.memoryBytes ?? 0);
  }

  close(keep?: { readonly seq: Sequence; readonly core: Uint8Array }): void {
    if (this.closed) return;
    this.closed = true;
    this.connection?.close();
    this.file.abandon();
    try {
      if (keep !== undefined && this.file.failure === undefined)
        this.file.image.save(keep.seq, keep.core);
      else this.cache?.remove();
    } catch {
      // The disk refused. A cache is only a shortcut: the next activation replays instead. What is
      // left has no meta, or an older one whose pages did not change.
      this.cache?.release();
    }
    this.file.image.drop();
    this.onClose();
  }

  private connect(): Connection {
    this.mustBeUsable();
    return (this.connection ??= new Connection(this.engine, this.file));
  }

  private guarded<A>(act: () => A): A {
    this.mustBeUsable();
    try {
      return act();
    } catch (error) {
      if (isCorrupt(error)) this.file.failure ??= error;
      throw error;
    }
  }

  private mustBeUsable(): void {
    if (this.closed) throw new Error("the database is closed");
    if (this.file.failure !== undefined) throw this.file.failure;
  }

  private mustNotBeOpen(what: string): void {
    if (this.connection !== undefined || this.file.dirty)
      throw new Error(
        `${what}: only before the first query, because SQLite has pages in its cache`,
      );
  }
}

const isCorrupt = (error: unknown): boolean =>
  error instanceof Error && "_tag" in error && error._tag === "LocalImageCorrupt";
