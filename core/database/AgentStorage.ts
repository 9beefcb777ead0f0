/**
 * `ctx.storage`: the agent's SQLite database under the names that apps for the reference use:
 * `sql.exec` with its cursor, `transactionSync`, and the key-value calls (`get`, `put`, `delete`,
 * `list`), which keep JSON values in the table `_agents_kv` of the same database.
 *
 * Writes are visible at once and durable before any output of the turn leaves; `sync()` waits for
 * that.
 */
import type { SqlResult, SqlValue } from "./Databases.ts";
import { tableExists } from "./tableExists.ts";
import { SqlError } from "../errors/errors.ts";

export type SqlParameter = SqlValue | boolean | undefined | ArrayBuffer;
export type SqlRow = Record<string, SqlValue>;

/**
 * Rows of one statement, in memory already: iterate it, or take them with `toArray`, `one` or
 * `raw`.
 */
export class SqlCursor<Row = SqlRow> implements IterableIterator<Row> {
  readonly columnNames: ReadonlyArray<string>;
  readonly rowsRead: number;
  readonly rowsWritten: number;
  private readonly rows: ReadonlyArray<ReadonlyArray<SqlValue>>;
  private at = 0;

  constructor(
    columns: ReadonlyArray<string>,
    rows: ReadonlyArray<ReadonlyArray<SqlValue>>,
    written: number,
  ) {
    this.columnNames = columns;
    this.rows = rows;
    this.rowsRead = rows.length;
    this.rowsWritten = written;
  }

  next(): IteratorResult<Row> {
    const row = this.rows[this.at];
    if (row === undefined) return { done: true, value: undefined };
    this.at++;
    return { done: false, value: toObject(this.columnNames, row) as Row };
  }
  [Symbol.iterator](): this {
    return this;
  }
  toArray(): Row[] {
    return [...this];
  }
  /** The only row. Throws when there is none or more than one. */
  one(): Row {
    const [row, ...more] = this.toArray();
    if (row === undefined || more.length > 0)
      throw new Error(
        `Expected exactly one result from SQL query, but got ${row ? "more" : "none"}`,
      );
    return row;
  }
  /** The rows as arrays of values. */
  *raw(): IterableIterator<ReadonlyArray<SqlValue>> {
    for (; this.at < this.rows.length; this.at++) yield this.rows[this.at]!;
  }
}

/** A row as an object; of two columns of one name the last wins. */
export function toObject(columns: ReadonlyArray<string>, row: ReadonlyArray<SqlValue>): SqlRow {
  const object: SqlRow = {};
  for (let i = 0; i < columns.length; i++) object[columns[i]!] = row[i]!;
  return object;
}

/** What SQLite takes for a value of JavaScript. */
export function toSqlValue(value: SqlParameter): SqlValue | boolean {
  if (value === undefined) return null;
  return value instanceof ArrayBuffer ? new Uint8Array(value) : value;
}

const KV_TABLE =
  "CREATE TABLE IF NOT EXISTS _agents_kv (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID";

export interface ListOptions {
  readonly prefix?: string;
  readonly start?: string;
  readonly end?: string;
  readonly limit?: number;
  readonly reverse?: boolean;
}

/** The agent whose database it is (`AgentWork`). */
export interface StorageRuntime {
  query(sql: string, params: ReadonlyArray<SqlValue | boolean>, isLimited?: boolean): SqlResult;
  transaction<A>(f: () => A): A;
  /** Resolves when everything written so far is stored. */
  flush(): Promise<void>;
}

export class AgentStorage {
  readonly #runtime: StorageRuntime;
  readonly sql: {
    /** Runs SQL with positional bindings. Throws `SqlError`. */
    readonly exec: <Row = SqlRow>(sql: string, ...bindings: SqlParameter[]) => SqlCursor<Row>;
  };

  constructor(runtime: StorageRuntime) {
    this.#runtime = runtime;
    this.sql = {
      exec: <Row = SqlRow>(sql: string, ...bindings: SqlParameter[]) => {
        const result = this.#query(sql, bindings);
        return new SqlCursor<Row>(result.columns, result.rows, result.rowsWritten);
      },
    };
  }

  /**
   * Runs `f` in one transaction: if it throws, what it wrote to SQL is undone and the error goes
   * on.
   */
  transactionSync<A>(f: () => A): A {
    return this.#runtime.transaction(f);
  }

  /** Resolves when everything written so far is stored. */
  sync(): Promise<void> {
    return this.#runtime.flush();
  }

  async get<A = unknown>(key: string): Promise<A | undefined>;
  async get<A = unknown>(keys: string[]): Promise<Map<string, A>>;
  async get<A>(key: string | string[]): Promise<A | undefined | Map<string, A>> {
    const exists = this.#kvExists();
    const read = (one: string): A | undefined => {
      if (!exists) return undefined;
      const row = this.#query("SELECT value FROM _agents_kv WHERE key = ?", [one]).rows[0];
      return row === undefined ? undefined : (JSON.parse(String(row[0])) as A);
    };
    if (typeof key === "string") return read(key);
    const found = new Map<string, A>();
    for (const one of key) {
      const value = read(one);
      if (value !== undefined) found.set(one, value);
    }
    return found;
  }

  async put(key: string, value: unknown): Promise<void>;
  async put(entries: Record<string, unknown>): Promise<void>;
  async put(key: string | Record<string, unknown>, value?: unknown): Promise<void> {
    const entries = typeof key === "string" ? { [key]: value } : key;
    this.#query(KV_TABLE, []);
    for (const [name, entry] of Object.entries(entries)) {
      const json = JSON.stringify(entry) as string | undefined;
      if (json === undefined)
        throw new TypeError(
          `storage.put("${name}"): the value is not JSON; it was ${typeof entry}`,
        );
      this.#query("INSERT OR REPLACE INTO _agents_kv (key, value) VALUES (?, ?)", [name, json]);
    }
  }

  /** Whether the key was there; for several keys, how many were. */
  async delete(key: string): Promise<boolean>;
  async delete(keys: string[]): Promise<number>;
  async delete(key: string | string[]): Promise<boolean | number> {
    if (!this.#kvExists()) return typeof key === "string" ? false : 0;
    const drop = (one: string): number =>
      this.#query("DELETE FROM _agents_kv WHERE key = ?", [one]).rowsWritten;
    if (typeof key === "string") return drop(key) > 0;
    return key.reduce((count, one) => count + drop(one), 0);
  }

  /** Keys and values in key order. */
  async list<A = unknown>(options: ListOptions = {}): Promise<Map<string, A>> {
    if (!this.#kvExists()) return new Map();
    const { prefix = "", start, end, limit = -1, reverse = false } = options;
    const result = this.#query(
      `SELECT key, value FROM _agents_kv
       WHERE substr(key, 1, length(?1)) = ?1 AND (?2 IS NULL OR key >= ?2) AND (?3 IS NULL OR key < ?3)
       ORDER BY key ${reverse ? "DESC" : "ASC"} LIMIT ?4`,
      [prefix, start, end, limit],
    );
    return new Map(
      result.rows.map(([key, value]) => [String(key), JSON.parse(String(value)) as A]),
    );
  }

  /** What only reads does not make it: it would be the first write of an agent that has none. */
  #kvExists(): boolean {
    return tableExists({ query: (sql, params) => this.#query(sql, params) }, "_agents_kv");
  }

  #query(sql: string, bindings: ReadonlyArray<SqlParameter>): SqlResult {
    try {
      return this.#runtime.query(sql, bindings.map(toSqlValue), true);
    } catch (cause) {
      throw new SqlError(sql, cause);
    }
  }
}
