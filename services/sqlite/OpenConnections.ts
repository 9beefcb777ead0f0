/**
 * Tracks the open SQLite connections of a layer, and closes some of them when SQLite's heap fills
 * up.
 *
 * All databases of a process share one heap of at most 2 GiB (WebAssembly, as the engine is built).
 * An open connection takes about 43 KB of it, so that 45,000 agents in memory would fill it. A
 * database loses nothing when its connection closes: the page file holds its pages, and its next
 * query reconnects.
 *
 * Eviction is the CLOCK algorithm, which approximates least recently used: each database is tried
 * in turn, and skipped once if it was used since its last try. A query then costs a flag, not a
 * move in a list.
 */
import type { Engine } from "./Engine.ts";

/**
 * Half of the heap. The other half is left for the growth of open connections (at most 256 KiB of
 * pages each) and for large queries.
 */
export const SQLITE_HEAP_BYTES_MAX = 1024 ** 3;
/** The heap is checked once in this many queries, because open connections grow as they read. */
const QUERIES_PER_CHECK = 256;
/** The most connections tried at a time, so that no query pays for all of them. */
const TRIED_AT_ONCE = 64;

export interface OpenDatabase {
  /** Set by each query and cleared by `OpenConnections`. */
  usedSince: boolean;
  /** Closes the connection if nothing is lost. Returns whether it closed. */
  disconnectIfIdle(): boolean;
}

export class OpenConnections {
  /** In the order of their last try, the oldest first. */
  private readonly open = new Set<OpenDatabase>();
  private queries = 0;

  constructor(
    private readonly engine: Engine,
    private readonly heapBytesMax: number,
  ) {}

  add(database: OpenDatabase): void {
    database.usedSince = true;
    this.open.add(database);
  }

  remove(database: OpenDatabase): void {
    this.open.delete(database);
  }

  /** Called before each query. May close other databases' connections, never `database`'s. */
  used(database: OpenDatabase): void {
    database.usedSince = true;
    if (++this.queries >= QUERIES_PER_CHECK) this.makeRoom();
  }

  /** Closes connections while the heap is too full. Also called before a connection is opened. */
  makeRoom(): void {
    this.queries = 0;
    // A set iterates in insertion order, and a database moves to the end when it is tried.
    let left = Math.min(this.open.size, TRIED_AT_ONCE);
    for (const database of this.open) {
      if (left-- === 0 || this.engine.memoryUsed <= this.heapBytesMax) return;
      this.open.delete(database);
      if (database.usedSince || !database.disconnectIfIdle()) this.open.add(database);
      database.usedSince = false;
    }
  }
}
