/**
 * Which databases of a layer have SQLite open, and which of them close it when SQLite's heap fills up.
 *
 * All of a process share one heap of at most 2 GiB (WebAssembly's, as the engine is built), and an open
 * connection takes some 43 KB of it: 45,000 agents in memory filled it. A database whose connection is
 * closed loses nothing: its pages are the page file's, and its next query opens it again.
 *
 * The longest unused go first, about: each is asked in turn, and passed over once if it was used since it
 * was last asked (the CLOCK algorithm), so that a query pays a flag and not a place in a list.
 */
import type { Engine } from "./Engine.ts";

/** Half of what there can be: the rest is for what the open ones still take (256 KiB of pages each, at most), and for large queries. */
export const SQLITE_HEAP_BYTES_MAX = 1024 ** 3;
/** How many more queries until the heap is looked at again: open connections grow by what they read. */
const QUERIES_A_LOOK = 256;
/** Asked at a time, of whom few close: no query pays for all of them. */
const ASKED_AT_ONCE = 64;

/** A database with an open connection. */
export interface OpenDatabase {
  /** Set by each query; cleared here. */
  usedSince: boolean;
  /** Closes the connection, if nothing would be lost by it. */
  rest(): boolean;
}

export class OpenConnections {
  private readonly engine: Engine;
  private readonly heapBytesMax: number;
  /** The longest unasked first. */
  private readonly open = new Set<OpenDatabase>();
  private queries = 0;

  constructor(engine: Engine, heapBytesMax: number) {
    this.engine = engine;
    this.heapBytesMax = heapBytesMax;
  }

  add(database: OpenDatabase): void {
    database.usedSince = true;
    this.open.add(database);
  }

  remove(database: OpenDatabase): void {
    this.open.delete(database);
  }

  /** A query is about to run; may close others' connections, never that of `database`. */
  used(database: OpenDatabase): void {
    database.usedSince = true;
    if (++this.queries >= QUERIES_A_LOOK) this.makeRoom();
  }

  /** Before a connection is opened, too. */
  makeRoom(): void {
    this.queries = 0;
    // A set iterates in the order of insertion, and who is asked goes to the end.
    let left = Math.min(this.open.size, ASKED_AT_ONCE);
    for (const database of this.open) {
      if (left-- === 0 || this.engine.memoryUsed <= this.heapBytesMax) return;
      this.open.delete(database);
      if (database.usedSince || !database.rest()) this.open.add(database);
      database.usedSince = false;
    }
  }
}
