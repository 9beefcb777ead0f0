/**
 * What an agent's SQL may not do, decided purely: SQLite's authorizer asks for each action of a
 * statement when it is prepared. Refused is what would break the page file under it (how the file is laid
 * out, journaled and locked), other files, limits that all agents share, and transactions by hand.
 */

/** Action codes of SQLite that matter here. */
const PRAGMA = 19;
const TRANSACTION = 22;
const ATTACH = 24;
const DETACH = 25;
const SAVEPOINT = 32;

/** Pragmas that may be given an argument. Without one, all only tell. */
const PRAGMAS_WITH_ARGUMENT = new Set([
  "analysis_limit",
  "application_id",
  "auto_vacuum",
  "automatic_index",
  "case_sensitive_like",
  "cell_size_check",
  "defer_foreign_keys",
  "foreign_key_check",
  "foreign_key_list",
  "foreign_keys",
  "ignore_check_constraints",
  "incremental_vacuum",
  "index_info",
  "index_list",
  "index_xinfo",
  "integrity_check",
  "legacy_alter_table",
  "optimize",
  "query_only",
  "quick_check",
  "recursive_triggers",
  "reverse_unordered_selects",
  "secure_delete",
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
