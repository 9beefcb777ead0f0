/**
 * `cf_agents_streams` and `cf_agents_stream_chunks`: the streams of an agent and what was written
 * to them, in the agent's own database. Journal, snapshots, forks, exports and erasures contain
 * them like any other table. Made with the first row; users may read them.
 *
 * A row of chunks holds those that one commit took, as a JSON array, under the number of its last
 * one. Chunks are numbered from 1 without a gap.
 */
import { copyTable } from "../database/copyTable.ts";
import { textOrNull } from "../database/nullable.ts";
import { tableExists } from "../database/tableExists.ts";
import type { Queried, SqlValue } from "../database/Databases.ts";

type StreamStatus = "open" | "ended" | "failed";

export interface StreamRow {
  readonly key: string;
  /** Identifies this stream. A later one under the same key has another. */
  readonly id: string;
  readonly status: StreamStatus;
  /** Number of its last chunk; 0: none. */
  readonly sequence: number;
  /** UTF-16 units of its chunks as JSON. */
  readonly size: number;
  /** Its result as JSON text, or null. */
  readonly result: string | null;
  readonly error: string | null;
  readonly createdMs: number;
  /** Time of its last write. */
  readonly updatedMs: number;
  /** It is removed this long after its last write. */
  readonly keepMs: number;
}

/** Chunks that were stored together. */
interface ChunkRow {
  /** Number of the last of them. */
  readonly last: number;
  readonly chunks: ReadonlyArray<unknown>;
}

const STREAMS = "cf_agents_streams";
const CHUNKS = "cf_agents_stream_chunks";
const DDL = `CREATE TABLE IF NOT EXISTS ${STREAMS} (
  key TEXT PRIMARY KEY NOT NULL,
  id TEXT NOT NULL,
  status TEXT NOT NULL,
  sequence INTEGER NOT NULL,
  size INTEGER NOT NULL,
  result TEXT,
  error_message TEXT,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL,
  keep_ms INTEGER NOT NULL
)`;
const CHUNKS_DDL = `CREATE TABLE IF NOT EXISTS ${CHUNKS} (
  stream TEXT NOT NULL,
  last INTEGER NOT NULL,
  chunks TEXT NOT NULL,
  PRIMARY KEY (stream, last)
) WITHOUT ROWID`;
const COLUMNS =
  "key, id, status, sequence, size, result, error_message, created_at, updated_at, keep_ms";
/** About a quarter of a MiB. */
const ROWS_AT_ONCE = 16;
/** The history's entry for a commit that stored chunks. */
export const INSERT_CHUNKS = `INSERT INTO ${CHUNKS} (stream, last, chunks) VALUES (?, ?, ?)`;

export class StreamTable {
  constructor(private readonly database: Queried) {}

  /** Users may drop the tables; then there are no streams. */
  private get exists(): boolean {
    return tableExists(this.database, STREAMS) && tableExists(this.database, CHUNKS);
  }

  get(key: string): StreamRow | undefined {
    return this.select("WHERE key = ?", [key])[0];
  }

  put(row: StreamRow): void {
    if (!this.exists) {
      this.database.query(DDL, []);
      this.database.query(CHUNKS_DDL, []);
    }
    const { key, id, status, sequence, size, result, error, createdMs, updatedMs, keepMs } = row;
    this.database.query(
      `INSERT OR REPLACE INTO ${STREAMS} (${COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
      [key, id, status, sequence, size, result, error, createdMs, updatedMs, keepMs],
    );
  }

  /** Called after `put` of their stream. */
  add(id: string, last: number, chunks: ReadonlyArray<string>): void {
    this.database.query(INSERT_CHUNKS, [id, last, `[${chunks.join(",")}]`]);
  }

  /** The next rows that hold chunks after this number, in order. */
  after(id: string, sequence: number): ReadonlyArray<ChunkRow> {
    if (!this.exists) return [];
    const { rows } = this.database.query(
      `SELECT last, chunks FROM ${CHUNKS} WHERE stream = ? AND last > ? ORDER BY last LIMIT ?`,
      [id, sequence, ROWS_AT_ONCE],
    );
    return rows.map(([last, chunks]) => ({
      last: Number(last),
      chunks: JSON.parse(String(chunks)) as ReadonlyArray<unknown>,
    }));
  }

  remove({ key, id }: Pick<StreamRow, "key" | "id">): void {
    if (!this.exists) return;
    this.database.query(`DELETE FROM ${CHUNKS} WHERE stream = ?`, [id]);
    this.database.query(`DELETE FROM ${STREAMS} WHERE key = ?`, [key]);
  }

  count(): number {
    if (!this.exists) return 0;
    return Number(this.database.query(`SELECT count(*) FROM ${STREAMS}`, []).rows[0]![0]);
  }

  /** The stream that ended longest ago. `except`: keys that do not count. */
  oldestOver(except: ReadonlyMap<string, unknown>): StreamRow | undefined {
    const sql = "WHERE status <> 'open' ORDER BY updated_at, key LIMIT ?";
    return this.select(sql, [except.size + 1]).find(({ key }) => !except.has(key));
  }

  /** Streams that have expired. */
  expired(nowMs: number): ReadonlyArray<StreamRow> {
    return this.select("WHERE updated_at + keep_ms <= ?", [nowMs]);
  }

  /** When the next stream expires; undefined without any. */
  nextExpiryMs(nowMs: number): number | undefined {
    if (!this.exists) return undefined;
    const sql = `SELECT min(updated_at + keep_ms) FROM ${STREAMS} WHERE updated_at + keep_ms > ?`;
    const at = this.database.query(sql, [nowMs]).rows[0]![0];
    return at === null || at === undefined ? undefined : Number(at);
  }

  private select(rest: string, params: ReadonlyArray<SqlValue>): StreamRow[] {
    if (!this.exists) return [];
    const { rows } = this.database.query(`SELECT ${COLUMNS} FROM ${STREAMS} ${rest}`, params);
    return rows.map((row) => ({
      key: String(row[0]),
      id: String(row[1]),
      status: String(row[2]) as StreamStatus,
      sequence: Number(row[3]),
      size: Number(row[4]),
      result: textOrNull(row[5]),
      error: textOrNull(row[6]),
      createdMs: Number(row[7]),
      updatedMs: Number(row[8]),
      keepMs: Number(row[9]),
    }));
  }
}

/** Replaces the streams of one database by those of another. */
export function copyStreams(from: Queried, to: Queried): void {
  for (const table of [STREAMS, CHUNKS]) copyTable(from, to, table);
}
