/**
 * Types of the engine's raw exports in use: pointers and ints are numbers, 64-bit ints are bigints,
 * and a null pointer is 0. sqlite.org/c3ref documents each function.
 */
export interface EngineExports {
  readonly sqlite3_malloc: (bytes: number) => number;
  readonly sqlite3_free: (at: number) => void;
  readonly sqlite3_status64: (op: number, current: number, high: number, reset: number) => number;
  readonly sqlite3_open_v2: (name: number, db: number, flags: number, vfs: number) => number;
  readonly sqlite3_close_v2: (db: number) => number;
  readonly sqlite3_exec: (db: number, sql: number, f: number, arg: number, error: number) => number;
  readonly sqlite3_errmsg: (db: number) => number;
  /** Bytes from the beginning of the SQL; -1 where the error has no place in it. */
  readonly sqlite3_error_offset: (db: number) => number;
  readonly sqlite3_get_autocommit: (db: number) => number;
  readonly sqlite3_changes: (db: number) => number;
  readonly sqlite3_total_changes: (db: number) => number;
  readonly sqlite3_last_insert_rowid: (db: number) => bigint;
  readonly sqlite3_set_last_insert_rowid: (db: number, rowid: bigint) => void;
  readonly sqlite3_db_status: (
    db: number,
    op: number,
    current: number,
    high: number,
    reset: number,
  ) => number;
  readonly sqlite3_set_authorizer: (db: number, f: number, arg: number) => number;
  /** `f` is called every `operations` steps of SQLite's virtual machine; 0 removes it. */
  readonly sqlite3_progress_handler: (
    db: number,
    operations: number,
    f: number,
    arg: number,
  ) => void;
  readonly sqlite3__wasm_db_config_ip: (
    db: number,
    op: number,
    value: number,
    result: number,
  ) => number;
  readonly sqlite3__wasm_db_config_pii: (
    db: number,
    op: number,
    at: number,
    size: number,
    count: number,
  ) => number;
  readonly sqlite3_prepare_v3: (
    db: number,
    sql: number,
    bytes: number,
    flags: number,
    statement: number,
    tail: number,
  ) => number;
  readonly sqlite3_finalize: (statement: number) => number;
  readonly sqlite3_step: (statement: number) => number;
  readonly sqlite3_reset: (statement: number) => number;
  readonly sqlite3_clear_bindings: (statement: number) => number;
  readonly sqlite3_stmt_readonly: (statement: number) => number;
  readonly sqlite3_stmt_status: (statement: number, op: number, reset: number) => number;
  readonly sqlite3_bind_parameter_count: (statement: number) => number;
  readonly sqlite3_bind_null: (statement: number, index: number) => number;
  readonly sqlite3_bind_int: (statement: number, index: number, value: number) => number;
  readonly sqlite3_bind_int64: (statement: number, index: number, value: bigint) => number;
  readonly sqlite3_bind_double: (statement: number, index: number, value: number) => number;
  readonly sqlite3_bind_text: (
    statement: number,
    index: number,
    at: number,
    bytes: number,
    free: number,
  ) => number;
  readonly sqlite3_bind_blob: (
    statement: number,
    index: number,
    at: number,
    bytes: number,
    free: number,
  ) => number;
  readonly sqlite3_column_count: (statement: number) => number;
  readonly sqlite3_column_name: (statement: number, column: number) => number;
  readonly sqlite3_column_type: (statement: number, column: number) => number;
  readonly sqlite3_column_double: (statement: number, column: number) => number;
  readonly sqlite3_column_text: (statement: number, column: number) => number;
  readonly sqlite3_column_blob: (statement: number, column: number) => number;
  readonly sqlite3_column_bytes: (statement: number, column: number) => number;
}
