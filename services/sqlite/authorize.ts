/**
 * What an agent's SQL may not do, decided purely: SQLite's authorizer asks for each action of a
 * statement when it is prepared. Refused is what would break the page file under it (how the file is laid
 * out, journaled and locked), other files, limits that all agents share, and transactions by hand.
 */

/** Action codes of SQLite that matter here. */
const INSERT = 18;
const PRAGMA = 19;
const TRANSACTION = 22;
const ATTACH = 24;
const DETACH = 25;
const SAVEPOINT = 32;

/** As the authorizer calls them: the second where TEMP was said, the first where `temp.` was. */
const SCHEMA_TABLES = new Set(["sqlite_master", "sqlite_temp_master"]);

/** Pragmas whose argument is a setting of the connection, and not of the file or of one statement. */
const CONNECTION_SETTINGS = new Set([
  "analysis_limit",
  "automatic_index",
  "case_sensitive_like",
  "cell_size_check",
  "foreign_keys",
  "ignore_check_constraints",
  "legacy_alter_table",
  "query_only",
  "recursive_triggers",
  "reverse_unordered_selects",
  "secure_delete",
]);

/** Pragmas that may be given an argument. Without one, all only tell. */
const PRAGMAS_WITH_ARGUMENT = new Set([
  ...CONNECTION_SETTINGS,
  "application_id",
  "auto_vacuum",
  "defer_foreign_keys",
  "foreign_key_check",
  "foreign_key_list",
  "incremental_vacuum",
  "index_info",
  "index_list",
  "index_xinfo",
  "integrity_check",
  "optimize",
  "quick_check",
  "table_info",
  "table_list",
  "table_xinfo",
  "user_version",
]);

/**
 * Why the action is refused, in words for the author of the SQL; undefined when it is allowed.
 * `nested`: SQLite prepares it itself while a statement runs. VACUUM copies through an attached temporary
 * database (a file without a name) and begins its own transaction.
 */
export function refusal(
  action: number,
  first: () => string,
  second: (() => string) | undefined,
  nested: boolean,
): string | undefined {
  switch (action) {
    case TRANSACTION:
    case SAVEPOINT:
      return nested
        ? undefined
        : `${action === SAVEPOINT ? "SAVEPOINT" : first()} is not allowed in SQL: use ctx.storage.transactionSync(() => …), which rolls back when the function throws`;
    case ATTACH:
      return nested && first() === ""
        ? undefined
        : "ATTACH and VACUUM INTO are not allowed: an agent has one database";
    case DETACH:
      return nested ? undefined : "DETACH is not allowed: an agent has one database";
    case PRAGMA: {
      const name = first().toLowerCase();
      return second === undefined || PRAGMAS_WITH_ARGUMENT.has(name)
        ? undefined
        : `PRAGMA ${name} can't be set: the runtime decides it, because the agent's journal depends on it`;
    }
    default:
      return undefined;
  }
}

/** What a statement leaves in its connection, and not in the database: lost when that closes, unless it is made again. */
export type Lasting =
  | { readonly kind: "temporary" }
  | { readonly kind: "setting"; readonly name: string; readonly value: string };

/** Of one action that is allowed; undefined for all that leave nothing. */
export function lasting(
  action: number,
  first: () => string,
  second: (() => string) | undefined,
  database: (() => string) | undefined,
): Lasting | undefined {
  // Whatever is made in the temporary database (tables, views, triggers, also virtual ones) is written to its schema.
  if (action === INSERT)
    return SCHEMA_TABLES.has(first()) && database?.() === "temp"
      ? { kind: "temporary" }
      : undefined;
  if (action !== PRAGMA || second === undefined) return undefined;
  const name = first().toLowerCase();
  return CONNECTION_SETTINGS.has(name) ? { kind: "setting", name, value: second() } : undefined;
}
