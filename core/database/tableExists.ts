/** Whether a database has a table of that name now: users may make and drop any. */
import type { Queried } from "./Databases.ts";

export const tableExists = (database: Queried, name: string): boolean =>
  database.query("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?", [name]).rows
    .length > 0;
