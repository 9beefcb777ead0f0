/**
 * The rows of the tables that an agent's code made, each under the key by which a person names it:
 * its primary key, else its rowid. For comparing two moments of an agent and for following a row.
 */
import { toHex } from "../../schemas/toHex.ts";
import type { AgentDatabase } from "../database/Databases.ts";
import { withName } from "./FieldPath.ts";

export type ReadableDatabase = Pick<AgentDatabase, "query">;

/** Cells as JSON can have them. */
export type Row = Readonly<Record<string, unknown>>;

/** The library's own tables. */
const OWN_TABLES = /^(?:svc_agents_|cf_agents_|sqlite_)/;
const ROWID_NAMES = ["rowid", "_rowid_", "oid"];
/** Enough to recognize a blob on one line. */
const SHOWN_BYTES = 120;

/** The text of the `CREATE TABLE` of each, by name. */
export const tablesOf = (database: ReadableDatabase): ReadonlyMap<string, string> =>
  new Map(
    database
      .query("SELECT name, sql FROM sqlite_master WHERE type = 'table' ORDER BY name", [])
      .rows.map(([name, sql]) => [String(name), String(sql)] as const)
      .filter(([name]) => !OWN_TABLES.test(name)),
  );

export const countRows = (database: ReadableDatabase, table: string): number =>
  Number(database.query(`SELECT count(*) FROM ${quoted(table)}`, []).rows[0]?.[0]);

/** By the path of each: `events[42]`. */
export function rowsByPath(database: ReadableDatabase, table: string): ReadonlyMap<string, Row> {
  const key = keyColumns(database, table);
  const { columns, rows } = database.query(
    `SELECT ${key.map(quoted).join(", ")}, * FROM ${quoted(table)}`,
    [],
  );
  const path = withName("", table);
  return new Map(
    rows.map((row) => [
      `${path}[${key.map((_, n) => JSON.stringify(shownCell(row[n]))).join(",")}]`,
      rowOf(columns, row, key.length),
    ]),
  );
}

/** Undefined if the table or row does not exist, or the key has another number of columns. */
export function rowAt(
  database: ReadableDatabase,
  table: string,
  values: ReadonlyArray<string | number | null>,
): Row | undefined {
  if (!tablesOf(database).has(table)) return undefined;
  const key = keyColumns(database, table);
  if (key.length !== values.length) return undefined;
  // `IS` compares NULL too, and converts a bound value to the column's affinity as `=` does.
  const where = key.map((column) => `${quoted(column)} IS ?`).join(" AND ");
  const { columns, rows } = database.query(
    `SELECT * FROM ${quoted(table)} WHERE ${where} LIMIT 1`,
    values,
  );
  return rows[0] === undefined ? undefined : rowOf(columns, rows[0], 0);
}

/** Columns of the primary key in its order, else the name of the rowid. */
export function keyColumns(database: ReadableDatabase, table: string): ReadonlyArray<string> {
  const info = database.query(`PRAGMA table_info(${quoted(table)})`, []).rows;
  const primary = info
    .filter((row) => Number(row[5]) > 0)
    .toSorted((a, b) => Number(a[5]) - Number(b[5]));
  if (primary.length > 0) return primary.map((row) => String(row[1]));
  const names = new Set(info.map((row) => String(row[1]).toLowerCase()));
  return [ROWID_NAMES.find((name) => !names.has(name)) ?? "rowid"];
}

const rowOf = (columns: ReadonlyArray<string>, cells: ReadonlyArray<unknown>, from: number): Row =>
  Object.fromEntries(
    columns.slice(from).map((column, n) => [column, shownCell(cells[n + from])] as const),
  );

/** A cell as JSON can have it. */
export function shownCell(value: unknown): unknown {
  if (value instanceof Uint8Array)
    return `${value.length} bytes ${toHex(value.subarray(0, SHOWN_BYTES))}`;
  if (typeof value !== "bigint") return value;
  const number = Number(value);
  return Number.isSafeInteger(number) ? number : String(value);
}

const quoted = (name: string): string => `"${name.replaceAll('"', '""')}"`;
