/**
 * An error of SQLite. The message is SQLite's own, followed by its place in the SQL (in bytes) and
 * the name of its code, as on the reference's platform: `no such column: c at offset 7:
 * SQLITE_ERROR`. `resultCode` is the extended result code (sqlite.org/rescode.html; `resultCode &
 * 255` is the primary one).
 */
import { IMAGE_BYTES_MAX } from "../../schemas/PageDelta.ts";

export class SqliteError extends Error {
  override readonly name = "SqliteError";
  readonly resultCode: number;

  constructor(message: string, resultCode: number) {
    super(message);
    this.resultCode = resultCode;
  }
}

/**
 * What follows SQLite's own message. `offset` is -1 for an error without a place. `nameOf`: the
 * name of a code, undefined for an unknown one.
 */
export function placeAndCode(
  code: number,
  offset: number,
  nameOf: (code: number) => string | undefined,
): string {
  const place = offset < 0 ? "" : ` at offset ${offset}`;
  const extended = code > 0xff ? nameOf(code) : undefined;
  const more = extended === undefined ? "" : ` (extended: ${extended})`;
  return `${place}: ${nameOf(code & 0xff) ?? `code ${code}`}${more}`;
}

/** SQLITE_INTERRUPT: the statement was ended at its time limit. */
export const RESULT_INTERRUPT = 9;
/** SQLITE_MISUSE: not exactly one statement. */
export const RESULT_MISUSE = 21;
/** SQLITE_FULL: the database has its maximum number of pages. */
export const RESULT_FULL = 13;
/** SQLITE_AUTH: the authorizer refused the statement. */
export const RESULT_AUTH = 23;
/** SQLITE_RANGE: wrong number of parameters. */
const RESULT_RANGE = 25;
/** SQLITE_MISMATCH: a value has a type that SQLite does not store. */
export const RESULT_MISMATCH = 20;
/** SQLITE_ABORT_ROLLBACK: the transaction of the statement was rolled back. */
const RESULT_ABORT_ROLLBACK = 4 | (2 << 8);

/** The error after a statement that failed in a transaction made SQLite roll it back. */
export const rolledBack = (): SqliteError =>
  new SqliteError(
    "The transaction was rolled back by a statement that failed in it: let the error end the function",
    RESULT_ABORT_ROLLBACK,
  );

/** The error for SQL whose statements have fewer or more parameters than were passed. */
export const wrongBindings = (has: number, passed: number): SqliteError =>
  new SqliteError(
    `Wrong number of parameter bindings for SQL query: it has ${has}, but ${passed} were passed`,
    RESULT_RANGE,
  );

/** The error for SQL that contains a NUL. */
export const hasNul = (): SqliteError =>
  new SqliteError(
    "SQL can't contain the character NUL: bind a text that contains it as a parameter",
    RESULT_MISUSE,
  );

/** The database has its most pages. SQLite's own message would make people check disks. */
export const hasNoPages = (message: string, resultCode: number): SqliteError =>
  new SqliteError(
    `${message} (an agent's database holds at most ${IMAGE_BYTES_MAX / 2 ** 20} MiB: delete rows, or spread them over more agents)`,
    resultCode,
  );
