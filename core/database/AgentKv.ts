/**
 * `ctx.storage.kv`: values by key, in the table `_agents_kv` of the agent's own database
 * (`storedValue` says how). `AgentStorage` has the same calls with promises.
 */
import type { SqlResult, SqlValue } from "./Databases.ts";
import { fromStored, toStored } from "./storedValue.ts";
import { tableExists } from "./tableExists.ts";

const KV_TABLE =
  "CREATE TABLE IF NOT EXISTS _agents_kv (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID";

/** After all that can follow a prefix: no UTF-8 has this byte. */
const LAST = "CAST(x'ff' AS TEXT)";

/** Options of `storage.list`. */
export interface ListOptions {
  /** Only keys that begin with this. Default: all. */
  readonly prefix?: string;
  /** Only keys from this one on. */
  readonly start?: string;
  /** Only keys after this one. Not together with `start`. */
  readonly startAfter?: string;
  /** Only keys before this one. */
  readonly end?: string;
  /** Largest number of entries, more than 0. Default: no limit. */
  readonly limit?: number;
  /** Whether entries come in descending order of their keys. Default false. */
  readonly reverse?: boolean;
}

type Query = (sql: string, bindings: ReadonlyArray<SqlValue | undefined>) => SqlResult;

/** All calls throw SQLite's error when the database refuses them. */
export class AgentKv {
  readonly #query: Query;

  constructor(query: Query) {
    this.#query = query;
  }

  /** The value of a key; undefined without one. */
  get<A = unknown>(key: string): A | undefined {
    if (!this.#exists()) return undefined;
    const row = this.#query("SELECT value FROM _agents_kv WHERE key = ?", [toKey(key)]).rows[0];
    return row === undefined ? undefined : (fromStored(row[0]) as A);
  }

  /**
   * Sets a key. Throws `TypeError` for `undefined`, and for a key with half a surrogate pair, which
   * UTF-8 can't tell from others. Throws a `DataCloneError` for a value that the structured clone
   * algorithm does not copy.
   */
  put<A = unknown>(key: string, value: A): void {
    if (value === undefined)
      throw new TypeError(`storage.put("${key}"): the value is undefined; delete the key instead`);
    const text = toKey(key);
    if (!text.isWellFormed())
      throw new TypeError(
        `storage.put(${JSON.stringify(text)}): the key contains half a surrogate pair: encode it`,
      );
    const stored = toStored(value, `storage.put("${key}"): the value`);
    this.#query(KV_TABLE, []);
    this.#query("INSERT OR REPLACE INTO _agents_kv (key, value) VALUES (?, ?)", [text, stored]);
  }

  /** Deletes a key. Returns whether it existed. */
  delete(key: string): boolean {
    if (!this.#exists()) return false;
    return this.#query("DELETE FROM _agents_kv WHERE key = ?", [toKey(key)]).rowsWritten > 0;
  }

  /**
   * Keys and values in the order of keys, as they are now. Throws `TypeError` for a limit that is
   * not above 0, and for `start` with `startAfter`, as on the reference's platform.
   */
  list<A = unknown>(options: ListOptions = {}): Array<[string, A]> {
    const { prefix = "", start, startAfter, end, limit = Infinity, reverse = false } = options;
    if (!(limit >= 1)) throw new TypeError(`storage.list: the limit ${limit} is not above 0`);
    if (start !== undefined && startAfter !== undefined)
      throw new TypeError("storage.list: give start or startAfter, not both");
    if (!this.#exists()) return [];
    const rowsMax = limit === Infinity ? -1 : Math.floor(limit);
    const result = this.#query(
      `SELECT key, value FROM _agents_kv
       WHERE key >= ?1 AND key < ?1 || ${LAST} AND (?2 IS NULL OR key >= ?2) AND (?3 IS NULL OR key < ?3)
         AND (?5 IS NULL OR key > ?5)
       ORDER BY key ${reverse ? "DESC" : "ASC"} LIMIT ?4`,
      [prefix, start, end, rowsMax, startAfter],
    );
    return result.rows.map(([key, value]) => [String(key), fromStored(value) as A]);
  }

  /** Reads don't create the table: that would be the first write of an agent without data. */
  #exists(): boolean {
    return tableExists({ query: this.#query }, "_agents_kv");
  }
}

/** Numbers and the like become text, as on the reference's platform. Throws for no key at all. */
function toKey(key: unknown): string {
  if (key === undefined) throw new TypeError("storage: the key is undefined");
  return String(key);
}
