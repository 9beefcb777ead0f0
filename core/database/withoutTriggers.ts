/**
 * Changes the library's own tables of a database without effects on users' rows: what users have
 * attached to those tables is for changes that code makes, not for copies of rows.
 */
import type { SqlResult, SqlValue } from "./Databases.ts";

interface Queried {
  query(sql: string, params: ReadonlyArray<SqlValue>): SqlResult;
}

/**
 * Runs `change` while the database has no triggers and enforces no foreign keys. Triggers of tables
 * that `change` leaves out are gone with them.
 */
export function withoutTriggers(database: Queried, change: () => void): void {
  const { rows } = database.query(
    "SELECT sql, tbl_name, name FROM sqlite_master WHERE type = 'trigger' ORDER BY rowid",
    [],
  );
  database.query("PRAGMA foreign_keys = OFF", []);
  for (const [, , name] of rows)
    database.query(`DROP TRIGGER "${String(name).replaceAll('"', '""')}"`, []);
  change();
  for (const [sql, of] of rows)
    if (database.query("SELECT 1 FROM sqlite_master WHERE name = ?", [of!]).rows.length > 0)
      database.query(String(sql), []);
  database.query("PRAGMA foreign_keys = ON", []);
}
