/**
 * The rows of the tables that an agent's code made, each under the key by which a person names it:
 * its primary key, else its rowid. For comparing two moments of an agent and for following a row.
 *
 * Several rows may have one key: SQLite allows NULL in most primary keys, any number of times, and
 * of a blob only the first bytes are shown. From the second on, in the table's order, their number
 * follows the key: `events[null,2]`.
 */
import { toHex } from "../../schemas/toHex.ts";
import type { AgentDatabase } from "../database/Databases.ts";
import { isOwnTable } from "../database/isOwnTable.ts";
import { quoted } from "../database/quoted.ts";
import { withName } from "./FieldPath.ts";

export type ReadableDatabase = Pick<AgentDatabase, "query">;

/** Cells as JSON can have them. */
export type Row = Readonly<Record<string, unknown>>;

const ROWID_NAMES = ["rowid", "_rowid_", "oid"];
/** Enough to recognize a blob on one line. */
const SHOWN_BYTES = 120;

/** The text of the `CREATE TABLE` of each, by name. */
export const tablesOf = (database: ReadableDatabase): ReadonlyMap<string, string> =>
  new Map(
    database
      .query("SELECT name, sql FROM sqlite_master WHERE type = 'table' ORDER BY name", [])
      .rows.map(([name, sql]) => [String(name), String(sql)] as const)
      .filter(([name]) => !isOwnTable(name)),
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
  const found = new Map<string, Row>();
  const counts = new Map<string, number>();
  for (const row of rows) {
    const cells = key.map((_, n) => JSON.stringify(shownCell(row[n]))).join(",");
    let place = `${path}[${cells}]`;
    if (found.has(place)) {
      const nth = (counts.get(cells) ?? 1) + 1;
      counts.set(cells, nth);
      place = `${path}[${cells},${nth}]`;
    }
    found.set(place, rowOf(columns, row, key.length));
  }
  return found;
}

/** Whether the values are a key of these columns, perhaps with a number. */
export const isKeyOf = (
  columns: ReadonlyArray<string>,
  values: ReadonlyArray<string | number | null>,
): boolean => values.length === columns.length || nthOf(columns, values) > 1;

/** The number of the row among those of its key. 0: the values are no key. */
function nthOf(
  { length }: ReadonlyArray<string>,
  values: ReadonlyArray<string | number | null>,
): number {
  if (values.length === length) return 1;
  const nth = values.length === length + 1 ? values[length] : undefined;
  return typeof nth === "number" && Number.isSafeInteger(nth) && nth > 1 ? nth : 0;
}

/** Undefined if the table or row does not exist, or the values are no key of it. */
export function rowAt(
  database: ReadableDatabase,
  table: string,
  values: ReadonlyArray<string | number | null>,
): Row | undefined {
  if (!tablesOf(database).has(table)) return undefined;
  const key = keyColumns(database, table);
  const nth = nthOf(key, values);
  if (nth === 0) return undefined;
  // `IS` compares NULL too, and converts a bound value to the column's affinity as `=` does.
  const where = key.map((column) => `${quoted(column)} IS ?`).join(" AND ");
  const { columns, rows } = database.query(
    `SELECT * FROM ${quoted(table)} WHERE ${where} LIMIT 1 OFFSET ${nth - 1}`,
    values.slice(0, key.length),
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
