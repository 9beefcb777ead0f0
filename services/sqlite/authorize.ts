/**
 * The rules for what an agent's SQL may do. Pure: SQLite's authorizer asks for each action of a
 * statement when it is prepared. The rules refuse changes of the file's layout, journal and locks,
 * access to other files, changes of limits that all agents share, and transactions in SQL.
 */

/** Action codes of SQLite's authorizer. */
const INSERT = 18;
const PRAGMA = 19;
const READ = 20;
const SELECT = 21;
const TRANSACTION = 22;
const ATTACH = 24;
const DETACH = 25;
const FUNCTION = 31;
const SAVEPOINT = 32;
const RECURSIVE = 33;

/**
 * The authorizer's names for a schema table: the second for `CREATE TEMP`, the first for
 * `temp.name`.
 */
const SCHEMA_TABLES = new Set(["sqlite_master", "sqlite_temp_master"]);

/** Pragmas whose argument sets the connection, rather than the file or one statement. */
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

/** Pragmas that accept an argument. Without one, every pragma only reads. */
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
 * Returns why the action is refused, as a message for the author of the SQL, or undefined if it is
 * allowed. `nested` is true if SQLite itself prepares it while a statement runs. VACUUM copies
 * through an attached temporary database (a file without a name) and begins its own transaction.
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
        : `PRAGMA ${name} can't be set: the runtime sets it, because the agent's journal depends on it`;
    }
    default:
      return undefined;
  }
}

const READING = new Set([READ, SELECT, FUNCTION, RECURSIVE]);

/**
 * As `refusal`, for a statement that may only read. A pragma that SQLite itself prepares is
 * table-valued (`pragma_table_info`); those have no effects.
 */
export function refusalToReader(
  action: number,
  first: () => string,
  nested: boolean,
): string | undefined {
  if (READING.has(action) || (nested && action === PRAGMA)) return undefined;
  switch (action) {
    case PRAGMA:
      return `PRAGMA ${first()} is not allowed: a query may only read (SELECT * FROM pragma_table_info('t') is allowed)`;
    case ATTACH:
    case DETACH:
      return "ATTACH and DETACH are not allowed: a query reads one database";
    case TRANSACTION:
    case SAVEPOINT:
      return "Transactions are not allowed: a query is one statement that reads";
    default:
      return "The statement writes, but a query may only read: use one SELECT";
  }
}

/** A statement's effect on its connection rather than the database. It ends with the connection. */
export type Lasting =
  | { readonly kind: "temporary" }
  | { readonly kind: "setting"; readonly name: string; readonly value: string };

/** The lasting effect of one allowed action; undefined for none. */
export function lasting(
  action: number,
  first: () => string,
  second: (() => string) | undefined,
  database: (() => string) | undefined,
): Lasting | undefined {
  // Creating anything in the temporary database (tables, virtual tables, views, triggers) inserts
  // into its schema table.
  if (action === INSERT)
    return SCHEMA_TABLES.has(first()) && database?.() === "temp"
      ? { kind: "temporary" }
      : undefined;
  if (action !== PRAGMA || second === undefined) return undefined;
  const name = first().toLowerCase();
  return CONNECTION_SETTINGS.has(name) ? { kind: "setting", name, value: second() } : undefined;
}
