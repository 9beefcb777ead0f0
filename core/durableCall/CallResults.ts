/**
 * `svc_agents_call_results`: the results of an agent's durable calls, for callers that ask again.
 * Written in the commit that ends a call.
 *
 * 1. A call that has ended is known for as long as a webhook's input is (`DoneSet`), or until
 *    `CALLS_MAX` others have ended.
 * 2. A result is kept until newer ones have `RESULTS_CHARS_MAX` characters. After that it is still
 *    known that the call has ended, so it does not run again.
 */
import type { AgentDatabase } from "../database/Databases.ts";
import { textOrNull } from "../database/nullable.ts";
import { tableExists } from "../database/tableExists.ts";
import { DONE_COUNT_MIN, DONE_RETENTION_MS } from "../journal/DoneSet.ts";

export const RESULTS_TABLE = "svc_agents_call_results";
/**
 * `upto` orders the calls: it grows by the characters of each result, and one. So what is past
 * `RESULTS_CHARS_MAX` is a range.
 */
const DDL = `CREATE TABLE ${RESULTS_TABLE} (
  upto INTEGER PRIMARY KEY,
  key TEXT NOT NULL UNIQUE,
  call TEXT NOT NULL,
  ended_at INTEGER NOT NULL,
  kept INTEGER NOT NULL DEFAULT 1,
  error TEXT,
  result TEXT
)`;
/** About 1 MB of rows: with a call each minute the age limit comes first. */
const CALLS_MAX = 10_000;
/** As much as a state may have. */
const RESULTS_CHARS_MAX = 16 * 1024 * 1024;
/** Each call removes more than it adds, so what is past a limit is removed in the end. */
const REMOVED_MAX = 2;

export interface CallEnd {
  /** The error that it failed with (`failureText`); null: it did not. */
  readonly error: string | null;
  /** JSON text; null for `undefined`. */
  readonly result: string | null;
}

export interface EndedCall extends CallEnd {
  /** Its method and arguments (`CallLane`). */
  readonly call: string;
  /** Rule 2. */
  readonly kept: boolean;
}

export class CallResults {
  constructor(private readonly database: AgentDatabase) {}

  get(key: string): EndedCall | undefined {
    const { database } = this;
    if (!tableExists(database, RESULTS_TABLE)) return undefined;
    const sql = `SELECT call, error, result, kept FROM ${RESULTS_TABLE} WHERE key = ?`;
    const row = database.query(sql, [key]).rows[0];
    if (row === undefined) return undefined;
    const [call, error, result, kept] = row;
    return {
      call: String(call),
      error: textOrNull(error),
      result: textOrNull(result),
      kept: kept === 1,
    };
  }

  add(key: string, call: string, { error, result }: CallEnd, nowMs: number): void {
    const { database } = this;
    if (!tableExists(database, RESULTS_TABLE)) database.query(DDL, []);
    const sums = `SELECT max(upto), count(*) FROM ${RESULTS_TABLE}`;
    const [before, count] = database.query(sums, []).rows[0]!;
    const upto = Number(before ?? 0) + (result?.length ?? 0) + 1;
    database.query(
      `INSERT INTO ${RESULTS_TABLE} (upto, key, call, ended_at, error, result) VALUES (?, ?, ?, ?, ?, ?)`,
      [upto, key, call, nowMs, error, result],
    );
    // Rule 1.
    database.query(
      `DELETE FROM ${RESULTS_TABLE} WHERE upto IN (SELECT upto FROM ${RESULTS_TABLE} ORDER BY upto LIMIT ${REMOVED_MAX}) AND (ended_at < ? OR ?)`,
      [
        Number(count) < DONE_COUNT_MIN ? 0 : nowMs - DONE_RETENTION_MS,
        Number(count) >= CALLS_MAX ? 1 : 0,
      ],
    );
    // Rule 2.
    database.query(
      `UPDATE ${RESULTS_TABLE} SET kept = 0, result = NULL WHERE kept = 1 AND upto <= ?`,
      [upto - RESULTS_CHARS_MAX],
    );
  }
}
