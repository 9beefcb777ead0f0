/**
 * The database port: one SQLite database per agent whose committed pages only ever come from
 * journal deltas, plus the local cache of the agent's last clean image.
 *
 * 1. Writes are visible to the agent at once and are *uncommitted* until `committed()`.
 * 2. `freeze()` takes the changed byte ranges of all pages written since the last freeze, as one
 *    delta; while it is in flight (frozen, not committed), later writes gather for the next. At
 *    most one delta is in flight.
 * 3. Applying the deltas of `freeze()` in order to an empty image, or to any `image()` between,
 *    produces byte-identical databases, whatever the SQL was.
 * 4. A local cache is used only if it was closed cleanly and every page read from it matches its
 *    checksum (I12); else `open` says it is empty and the caller replays. It is what the last
 *    `close` of this process left, or of a process before it; never of an earlier close, though the
 *    disk may have refused the last.
 * 5. SQLite itself is opened at the first `query` or `transaction`, so an agent that uses no SQL
 *    costs no database.
 *
 * `services/sqlite` implements it on sqlite-wasm with a page VFS; `core` knows what the pages mean.
 */
import * as Context from "effect/Context";
import * as Data from "effect/Data";
import type { AgentId, Sequence } from "../../schemas/Address.ts";

/** A value as SQLite stores it: NULL, INTEGER or REAL, TEXT, BLOB. */
export type SqlValue = null | number | bigint | string | Uint8Array;

export interface SqlResult {
  readonly columns: ReadonlyArray<string>;
  readonly rows: ReadonlyArray<ReadonlyArray<SqlValue>>;
  /** True when the statement could write (it is not read-only by `sqlite3_stmt_readonly`). */
  readonly wrote: boolean;
  /** Rows that INSERT, UPDATE or DELETE changed. */
  readonly rowsWritten: number;
}

/**
 * A page of the local cache is not what was written (I12). Any call on the database may throw it,
 * and then all do: close it without `keep`, which removes the cache, and rebuild the agent.
 */
export class LocalImageCorrupt extends Data.TaggedError("LocalImageCorrupt")<{
  readonly id: AgentId;
  readonly page: number;
  readonly message: string;
}> {}

/** A statement returned more rows than it may. */
export class TooManyRows extends Error {}

/** The values of a statement's rows have more bytes than they may. */
export class TooManyBytes extends Error {}

/** A statement ran for longer than it may. */
export class QueryTooLong extends Error {}

export interface ReadOptions {
  readonly rowsMax: number;
  /** The most bytes of all values: text as UTF-8, numbers as eight bytes. Default: no limit. */
  readonly bytesMax?: number;
  readonly timeMsMax: number;
  /** Bound to the statement's parameters, in order. Default: none. */
  readonly values?: ReadonlyArray<SqlValue | boolean>;
}

/** Each is called once; `rollback` after a `commit` that threw, too. */
export interface OpenTransaction {
  readonly commit: () => void;
  readonly rollback: () => void;
}

/** Where the library's own tables are: a database, or the running turn's writes to it. */
export interface Queried {
  readonly query: (sql: string, params: ReadonlyArray<SqlValue>) => SqlResult;
}

export interface AgentDatabase {
  /**
   * Runs one or more statements. Each takes as many of the parameters as it has, in order; the
   * result is the last statement's. Throws the SQLite error as it is (`message`, numeric
   * `resultCode`); a failed statement changes nothing, and those before it stay. BEGIN, COMMIT,
   * ROLLBACK and SAVEPOINT are refused (use `transaction`). Throws `TooManyRows` when a statement
   * that only reads returns more than `rowsMax`; default: no limit.
   */
  readonly query: (
    sql: string,
    params: ReadonlyArray<SqlValue | boolean>,
    rowsMax?: number,
  ) => SqlResult;
  /**
   * Runs one statement that only reads, for SQL that an operator writes. Whatever else it would do
   * is refused with the SQLite error: changes of rows or tables, ATTACH, PRAGMA, transactions, a
   * second statement. Throws `TooManyRows`, `TooManyBytes` and `QueryTooLong`.
   */
  readonly read: (sql: string, options: ReadOptions) => SqlResult;
  /**
   * As `query`, for a `CREATE` that reads nothing: what it makes of an empty database is always the
   * same, so it is copied into one.
   */
  readonly create: (ddl: string) => void;
  /** Runs `f` in one transaction; rolls back and rethrows if it throws. Nests. Synchronous. */
  readonly transaction: <A>(f: () => A) => A;
  /**
   * As `transaction`, for work that outlasts a function call: whatever is written until its end is
   * part of it. It must end before any transaction that began earlier.
   */
  readonly beginTransaction: () => OpenTransaction;
  /** Whether it is empty, uncommitted writes included. */
  readonly isEmpty: boolean;
  /**
   * Whether it may have a table whose name contains this ASCII text, uncommitted writes included,
   * except those of an open transaction. False is certain. It opens no SQLite, which most wakes
   * that run no SQL need not do either.
   */
  readonly mayHaveTable: (text: string) => boolean;
  /** A statement that would leave more page bytes uncommitted fails with SQLITE_FULL. */
  uncommittedBytesMax: number;
  /** Whether the last statement failed because of that. */
  readonly overflowed: boolean;
  /** Writes of pages so far, undone ones too: tells whether something wrote. */
  readonly writes: number;
  /** Uncommitted writes since the last `freeze`. */
  readonly dirty: boolean;
  /** The delta of everything written since the last freeze; undefined when no byte changed. */
  readonly freeze: () => { readonly delta: Uint8Array; readonly pages: number } | undefined;
  /** The frozen delta is journaled: its pages are now the committed image. */
  readonly committed: () => void;
  /**
   * Replay: applies a journaled delta to the committed image. Not in a transaction, and not with
   * uncommitted writes. Throws `CorruptFrame`.
   */
  readonly apply: (delta: Uint8Array) => void;
  /** Replay: replaces the committed image (a snapshot's). Not where `apply` is not. */
  readonly restore: (image: Uint8Array) => void;
  /** A copy of the committed image, page 1 to the last; empty when there is no database. */
  readonly image: () => Uint8Array;
  /** Size of the committed image. */
  readonly imageBytes: number;
  /** Bytes this database holds in memory now (pages, caches), about. */
  readonly memoryBytes: number;
  /**
   * Closes it. `keep` leaves the committed image as a clean local cache at journal sequence `seq`
   * with `core` beside it; without it, nothing local is left.
   */
  readonly close: (keep?: { readonly seq: Sequence; readonly core: Uint8Array }) => void;
}

export interface OpenedDatabase {
  readonly database: AgentDatabase;
  /** Present when the image came from a clean local cache: the `seq` and `core` of its close. */
  readonly cached?: { readonly seq: Sequence; readonly core: Uint8Array };
}

export interface DatabasesShape {
  /** Opens the agent's image: a clean local cache, else empty. Never fails on a bad cache. */
  readonly open: (id: AgentId) => OpenedDatabase;
  /**
   * Forgets the local cache of an agent: at the latest in memory, where the disk refuses. Does
   * nothing while the agent is open: the file is a successor's then.
   */
  readonly discard: (id: AgentId) => void;
  /** Bytes that all of them hold in memory now. */
  readonly memoryBytes: () => number;
  /** Bytes of the process's memory that they have reserved and that hold nothing now. */
  readonly unusedBytes: () => number;
}

export class Databases extends Context.Service<Databases, DatabasesShape>()(
  "agents/core/database/Databases",
) {}
