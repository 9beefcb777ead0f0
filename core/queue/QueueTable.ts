/**
 * `svc_agents_queue` (or another lane's table): items that wait, in the order they were pushed. The
 * runtime's own writes are not in the turn's record of SQL; the event's `queue` lists them.
 */
import type { AgentDatabase, SqlValue } from "../database/Databases.ts";
import { tableExists } from "../database/tableExists.ts";
import { finiteRetry, type ResolvedRetry } from "../retry/retryPolicy.ts";

const ddl = (table: string): string => `CREATE TABLE IF NOT EXISTS ${table} (
  seq INTEGER PRIMARY KEY AUTOINCREMENT,
  id TEXT NOT NULL UNIQUE,
  uid TEXT NOT NULL,
  callback TEXT NOT NULL,
  payload TEXT,
  retry_options TEXT NOT NULL,
  created_at INTEGER NOT NULL
);
CREATE INDEX IF NOT EXISTS ${table}_uid ON ${table} (uid)`;

/** An item as users see it (`protocol.md` §5). */
export interface QueueItem<T = unknown> {
  readonly id: string;
  readonly callback: string;
  readonly payload: T;
  /** Seconds since the epoch. */
  readonly createdAt: number;
  /** Fully resolved. */
  readonly retry: ResolvedRetry;
}

export interface QueueRow {
  readonly id: string;
  /** Identifies this push. An item that replaces another keeps its place and id, but not this. */
  readonly uid: string;
  readonly callback: string;
  /** JSON text, or null. */
  readonly payload: string | null;
  readonly retryOptions: string;
  readonly createdAt: number;
}

/** The items of `this.queue()`. */
export const QUEUE_TABLE = "svc_agents_queue";

export class QueueTable {
  /** Undefined: not looked yet. */
  private there: boolean | undefined;
  /** Whether it has its index, too: tables of older releases have none. */
  private isWhole = false;

  /** `name` is SQL of this class's callers only. */
  constructor(
    private readonly database: AgentDatabase,
    private readonly name = QUEUE_TABLE,
  ) {}

  /** Whether the table exists, without opening an empty database. */
  get exists(): boolean {
    if (this.there === undefined && this.database.isEmpty) return false;
    this.there ??= tableExists(this.database, this.name);
    return this.there;
  }

  /** A table was dropped, or a transaction rolled back: look again. */
  forget(): void {
    this.there = undefined;
    this.isWhole = false;
  }

  /** Adds it at the end, or in the place of the item with its id. */
  push(row: QueueRow): void {
    if (!this.isWhole) this.database.create(ddl(this.name));
    this.isWhole = this.there = true;
    this.database.query(
      `INSERT INTO ${this.name} (id, uid, callback, payload, retry_options, created_at) VALUES (?,?,?,?,?,?)
       ON CONFLICT (id) DO UPDATE SET uid = excluded.uid, callback = excluded.callback,
         payload = excluded.payload, retry_options = excluded.retry_options, created_at = excluded.created_at`,
      [row.id, row.uid, row.callback, row.payload, row.retryOptions, row.createdAt],
    );
  }

  count(): number {
    if (!this.exists) return 0;
    return Number(this.database.query(`SELECT count(*) FROM ${this.name}`, []).rows[0]![0]);
  }

  /** The oldest item that is not one of these pushes. */
  first(except: ReadonlyArray<string> = []): QueueRow | undefined {
    const places = except.map(() => "?").join();
    return this.select(`WHERE uid NOT IN (${places}) ORDER BY seq LIMIT 1`, except)[0];
  }

  all(): ReadonlyArray<QueueRow> {
    return this.select("ORDER BY seq", []);
  }

  get(id: string): QueueRow | undefined {
    return this.select("WHERE id = ?", [id])[0];
  }

  /** The item of that push, unless it is gone or was replaced. */
  ofPush(uid: string): QueueRow | undefined {
    return this.select("WHERE uid = ?", [uid])[0];
  }

  setPayload(uid: string, payload: string | null): void {
    this.database.query(`UPDATE ${this.name} SET payload = ? WHERE uid = ?`, [payload, uid]);
  }

  /** Whether the item of that push exists and was not replaced. */
  hasUid(uid: string): boolean {
    if (!this.exists) return false;
    const sql = `SELECT 1 FROM ${this.name} WHERE uid = ?`;
    return this.database.query(sql, [uid]).rows.length > 0;
  }

  /** Removes items and returns their ids. `where` is SQL of this class's callers only. */
  remove(
    where: "id = ?" | "uid = ?" | "callback = ?" | "1",
    params: ReadonlyArray<SqlValue>,
  ): ReadonlyArray<string> {
    if (!this.exists) return [];
    const { rows } = this.database.query(
      `DELETE FROM ${this.name} WHERE ${where} RETURNING id`,
      params,
    );
    return rows.map(([id]) => String(id));
  }

  private select(rest: string, params: ReadonlyArray<SqlValue>): ReadonlyArray<QueueRow> {
    if (!this.exists) return [];
    const { rows } = this.database.query(
      `SELECT id, uid, callback, payload, retry_options, created_at FROM ${this.name} ${rest}`,
      params,
    );
    return rows.map(([id, uid, callback, payload, retry, created]) => ({
      id: String(id),
      uid: String(uid),
      callback: String(callback),
      payload: payload === null || payload === undefined ? null : String(payload),
      retryOptions: String(retry),
      createdAt: Number(created),
    }));
  }
}

export const toQueueItem = (row: QueueRow): QueueItem => ({
  id: row.id,
  callback: row.callback,
  payload: row.payload === null ? undefined : (JSON.parse(row.payload) as unknown),
  createdAt: row.createdAt,
  retry: finiteRetry(JSON.parse(row.retryOptions) as ResolvedRetry),
});
