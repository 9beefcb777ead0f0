/**
 * Changes the library's own tables of a database without effects on users' rows: what users have
 * attached to those tables is for changes that code makes, not for copies of rows.
 */
import type { Queried } from "./Databases.ts";
import { isOwnTable } from "./isOwnTable.ts";
import { quoted } from "./quoted.ts";
import { tableExists } from "./tableExists.ts";

/**
 * Runs `change` while the library's tables have no triggers and no foreign keys are enforced.
 * Triggers of tables that `change` leaves out are gone with them. Those of users' own tables are
 * not touched: a database of which nothing is changed keeps its bytes.
 */
export function withoutTriggers(database: Queried, change: () => void): void {
  const triggers = database
    .query(
      "SELECT sql, tbl_name, name FROM sqlite_master WHERE type = 'trigger' ORDER BY rowid",
      [],
    )
    .rows.filter(([, of]) => isOwnTable(String(of)));
  database.query("PRAGMA foreign_keys = OFF", []);
  for (const [, , name] of triggers) database.query(`DROP TRIGGER ${quoted(String(name))}`, []);
  change();
  for (const [sql, of] of triggers)
    if (tableExists(database, String(of))) database.query(String(sql), []);
  database.query("PRAGMA foreign_keys = ON", []);
}
