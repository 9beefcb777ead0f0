/**
 * Replaces a table of one database by that of another, with its rows, its indexes and the last
 * number that it has given (AUTOINCREMENT); drops it where the other has none. For the library's
 * own tables. Users' triggers and rows may refer to the table: call it in `withoutTriggers`.
 */
import type { Queried } from "./Databases.ts";
import { tableExists } from "./tableExists.ts";

export function copyTable(from: Queried, to: Queried, table: string): void {
  if (tableExists(to, table)) to.query(`DROP TABLE ${table}`, []);
  const ddl = from.query("SELECT sql FROM sqlite_master WHERE type = 'table' AND name = ?", [table])
    .rows[0]?.[0];
  if (typeof ddl !== "string") return;
  to.query(ddl, []);
  const { columns, rows } = from.query(`SELECT * FROM ${table}`, []);
  const places = columns.map(() => "?").join(", ");
  for (const row of rows)
    to.query(`INSERT INTO ${table} (${columns.join(", ")}) VALUES (${places})`, row);
  const indexes =
    "SELECT sql FROM sqlite_master WHERE type = 'index' AND tbl_name = ? AND sql NOT NULL";
  for (const [index] of from.query(indexes, [table]).rows) to.query(String(index), []);
  if (!/\bAUTOINCREMENT\b/i.test(ddl)) return;
  to.query("DELETE FROM sqlite_sequence WHERE name = ?", [table]);
  const last = from.query("SELECT name, seq FROM sqlite_sequence WHERE name = ?", [table]).rows[0];
  if (last !== undefined) to.query("INSERT INTO sqlite_sequence (name, seq) VALUES (?, ?)", last);
}
