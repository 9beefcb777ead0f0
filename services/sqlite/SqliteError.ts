/**
 * An error of SQLite as it is: its message, and its extended result code
 * (sqlite.org/rescode.html; `resultCode & 255` is the primary one).
 */
export class SqliteError extends Error {
  override readonly name = "SqliteError";
  readonly resultCode: number;

  constructor(message: string, resultCode: number) {
    super(message);
    this.resultCode = resultCode;
  }
}

/** SQLITE_FULL: the database has all the pages that it may have. */
export const RESULT_FULL = 13;
/** SQLITE_AUTH: the authorizer refused it. */
export const RESULT_AUTH = 23;
/** SQLITE_RANGE: the number of parameters is wrong. */
export const RESULT_RANGE = 25;
/** SQLITE_MISMATCH: a value has no type that SQLite knows. */
export const RESULT_MISMATCH = 20;
/** SQLITE_ABORT_ROLLBACK: the transaction was rolled back under it. */
export const RESULT_ABORT_ROLLBACK = 4 | (2 << 8);
