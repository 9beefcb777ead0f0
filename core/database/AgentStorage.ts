/**
 * `ctx.storage`: the agent's SQLite database under the names that apps for the reference use:
 * `sql.exec` with its cursor, `transactionSync`, and the key-value calls (`get`, `put`, `delete`,
 * `list`), which `kv` has without promises (`AgentKv`). `core/durableObject/ObjectStorage` has what
 * only Durable Objects use.
 *
 * Writes are visible at once and durable before any output of the turn leaves; `sync()` waits for
 * that.
 */
import type { SqlResult, SqlValue } from "./Databases.ts";
import { AgentKv, type ListOptions } from "./AgentKv.ts";

/** A value that SQL can bind: booleans become 0 or 1, `undefined` NULL, views of bytes blobs. */
export type SqlParameter = SqlValue | boolean | undefined | ArrayBuffer | ArrayBufferView;
/**
 * A value of a column. Blobs come back as `Uint8Array`, and booleans as the numbers they were
 * stored as. Integers come back as numbers, never as `bigint`: beyond 2^53 they lose their last
 * digits, so select such a column as text.
 */
export type SqlColumnValue = Exclude<SqlValue, bigint>;
/** A row by column name. */
export type SqlRow = Record<string, SqlColumnValue>;

/** The rows of one statement, already in memory. Iterate it, or use `toArray`, `one` or `raw`. */
export class SqlCursor<Row = SqlRow> implements IterableIterator<Row> {
  /** Names of the columns, in order. */
  readonly columnNames: ReadonlyArray<string>;
  /** Number of rows that the statement returned. */
  readonly rowsRead: number;
  /** Number of rows that the statement changed. */
  readonly rowsWritten: number;
  readonly #rows: ReadonlyArray<ReadonlyArray<SqlValue>>;
  #at = 0;

  constructor(
    columns: ReadonlyArray<string>,
    rows: ReadonlyArray<ReadonlyArray<SqlValue>>,
    written: number,
  ) {
    this.columnNames = columns;
    this.#rows = rows;
    this.rowsRead = rows.length;
    this.rowsWritten = written;
  }

  /** The next row. */
  next(): IteratorResult<Row> {
    const row = this.#rows[this.#at];
    if (row === undefined) return { done: true, value: undefined };
    this.#at++;
    return { done: false, value: toObject(this.columnNames, row) as Row };
  }
  [Symbol.iterator](): this {
    return this;
  }
  /** The remaining rows. */
  toArray(): Row[] {
    return [...this];
  }
  /** The only row. Throws an `Error` for none or more than one. */
  one(): Row {
    const [row, ...more] = this.toArray();
    if (row === undefined || more.length > 0)
      throw new Error(
        `Expected exactly one result from SQL query, but got ${row ? "more" : "none"}`,
      );
    return row;
  }
  /** The remaining rows as arrays of values, in column order: iterate it, or read `toArray()`. */
  raw(): IterableIterator<SqlColumnValue[]> & { toArray(): SqlColumnValue[][] } {
    const rows = this.#raw();
    // Later releases of Node have it of their own.
    return Object.assign(rows, { toArray: () => [...rows] });
  }

  *#raw(): IterableIterator<SqlColumnValue[]> {
    for (; this.#at < this.#rows.length; this.#at++)
      yield [...(this.#rows[this.#at] as SqlColumnValue[])];
  }
}

/** A row as an object. Of two columns with one name the last one counts. */
export function toObject(columns: ReadonlyArray<string>, row: ReadonlyArray<SqlValue>): SqlRow {
  const object: SqlRow = {};
  for (let i = 0; i < columns.length; i++) {
    const column = columns[i]!;
    const value = row[i] as SqlColumnValue; // `Statement` reads no bigint.
    if (column !== "__proto__") object[column] = value;
    // An assignment would set the prototype, or nothing.
    else Object.defineProperty(object, column, { value, enumerable: true, writable: true, configurable: true }); // prettier-ignore
  }
  return object;
}

/** Whether it is several keys with their values. An array is one key. */
const isEntries = (key: string | Record<string, unknown>): key is Record<string, unknown> =>
  typeof key === "object" && key !== null && !Array.isArray(key);

/** The order of keys: that of their UTF-8. */
const byBytes = (a: string, b: string): number => Buffer.compare(Buffer.from(a), Buffer.from(b));

/** Converts a parameter to a value that SQLite accepts. */
export function toSqlValue(value: SqlParameter): SqlValue | boolean {
  if (value === undefined) return null;
  if (value instanceof ArrayBuffer) return new Uint8Array(value);
  return !ArrayBuffer.isView(value) || value instanceof Uint8Array
    ? value
    : new Uint8Array(value.buffer, value.byteOffset, value.byteLength);
}

/** The agent whose database it is (`AgentWork`). */
interface StorageRuntime {
  query(sql: string, params: ReadonlyArray<SqlValue | boolean>, isLimited?: boolean): SqlResult;
  transaction<A>(f: () => A): A;
  /** Resolves when everything written so far is stored. */
  flush(): Promise<void>;
}

/** The agent's storage. All calls read and write one SQLite database, in the agent's turn. */
export class AgentStorage {
  readonly #runtime: StorageRuntime;
  /** SQL on the agent's database. */
  readonly sql: {
    /** Runs SQL with positional bindings. Throws SQLite's error as it is. */
    readonly exec: <Row = SqlRow>(sql: string, ...bindings: SqlParameter[]) => SqlCursor<Row>;
    /** The database's size in bytes. */
    readonly databaseSize: number;
  };

  /** The key-value calls without promises, on the same keys. */
  readonly kv: AgentKv;

  constructor(runtime: StorageRuntime) {
    this.#runtime = runtime;
    this.kv = new AgentKv((sql, bindings) => this.#query(sql, bindings));
    const query = (sql: string, bindings: ReadonlyArray<SqlParameter>): SqlResult =>
      this.#query(sql, bindings);
    this.sql = {
      exec: <Row = SqlRow>(sql: string, ...bindings: SqlParameter[]) =>
        this.cursorOf<Row>(query(sql, bindings)),
      get databaseSize() {
        const { rows } = query(
          "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size",
          [],
        );
        return Number(rows[0]![0]);
      },
    };
  }

  /** Runs `f` in one transaction. If it throws, its SQL is rolled back and the error rethrown. */
  transactionSync<A>(f: () => A): A {
    return this.#runtime.transaction(f);
  }

  /** Resolves when everything written so far is durable. Rejects when it could not be stored. */
  sync(): Promise<void> {
    return this.#runtime.flush();
  }

  /**
   * The value of a key, undefined without one; for several keys, a map of those that exist, in the
   * order of keys. Rejects with SQLite's error. Here and below, a key that is no text is made one.
   */
  async get<A = unknown>(key: string): Promise<A | undefined>;
  async get<A = unknown>(keys: string[]): Promise<Map<string, A>>;
  async get<A>(key: string | string[]): Promise<A | undefined | Map<string, A>> {
    return this.access(() => {
      if (!Array.isArray(key)) return this.kv.get<A>(key);
      const found = new Map<string, A>();
      for (const one of key.map(String).toSorted(byBytes)) {
        const value = this.kv.get<A>(one);
        if (value !== undefined) found.set(one, value);
      }
      return found;
    });
  }

  /**
   * Sets a key, or several: all of them, or none if it rejects. A value is what the structured
   * clone algorithm copies. Of several, those whose value is `undefined` are left as they are, as
   * on the reference's platform. Rejects with a `DataCloneError` for another value, with
   * `TypeError` for one key with `undefined` and for a key that UTF-8 can't carry, and with
   * SQLite's error.
   */
  async put(key: string, value: unknown): Promise<void>;
  async put(entries: Record<string, unknown>): Promise<void>;
  async put(key: string | Record<string, unknown>, value?: unknown): Promise<void> {
    return this.access(() => {
      if (!isEntries(key)) return this.kv.put(key, value);
      this.#runtime.transaction(() => {
        for (const [name, entry] of Object.entries(key))
          if (entry !== undefined) this.kv.put(name, entry);
      });
    });
  }

  /** Deletes a key, or several. Resolves to whether it existed; for several, to how many did. */
  async delete(key: string): Promise<boolean>;
  async delete(keys: string[]): Promise<number>;
  async delete(key: string | string[]): Promise<boolean | number> {
    return this.access(() =>
      Array.isArray(key) ? key.filter((one) => this.kv.delete(one)).length : this.kv.delete(key),
    );
  }

  /**
   * Keys and values in the order of keys. Rejects with `TypeError` for a limit that is not above 0,
   * for `start` with `startAfter`, and with SQLite's error.
   */
  async list<A = unknown>(options: ListOptions = {}): Promise<Map<string, A>> {
    return this.access(() => new Map(this.kv.list<A>(options)));
  }

  /** Runs a call that returns a promise, which may wait for others (`ObjectStorage`). */
  protected access<A>(f: () => A): A | Promise<A> {
    return f();
  }

  protected cursorOf<Row>({ columns, rows, rowsWritten }: SqlResult): SqlCursor<Row> {
    return new SqlCursor<Row>(columns, rows, rowsWritten);
  }

  #query(sql: string, bindings: ReadonlyArray<SqlParameter>): SqlResult {
    return this.#runtime.query(sql, bindings.map(toSqlValue), true);
  }
}
