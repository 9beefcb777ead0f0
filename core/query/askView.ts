/**
 * Runs one question over the view of all agents (`View`): SQL that reads, within limits, with
 * errors for its author. For `agents query` and for `query` in code, which have different limits.
 */
import { toBase64 } from "../../schemas/base64.ts";
import {
  QueryTooLong,
  TooManyBytes,
  TooManyRows,
  type SqlResult,
  type SqlValue,
} from "../database/Databases.ts";
import { nearest } from "../errors/nearest.ts";
import type { View } from "./View.ts";

/** A question over all agents can't be answered as it is; the message says why. */
export class QueryRefused extends Error {
  override readonly name = "QueryRefused";
}

/** The question names a class without agents. The cause distinguishes it on the wire. */
export class UnknownClass extends QueryRefused {
  constructor(message: string) {
    super(message, { cause: UNKNOWN_CLASS });
  }
}
export const UNKNOWN_CLASS = "no agent has this class";

/** The statement ran for as long as it may. */
export class StatementStopped extends QueryRefused {}

/** SQLITE_NOMEM: SQLite's heap is at its limit. */
const RESULT_NOMEM = 7;

interface Question {
  readonly sql: string;
  /** Bound to its parameters, in order. */
  readonly values: ReadonlyArray<SqlValue | boolean>;
  /** The longest that the statement may run. */
  readonly seconds: number;
  readonly rowsMax: number;
  readonly bytesMax: number;
}

/** Throws `QueryRefused`, and `LocalImageCorrupt`. */
export function askView(
  view: Pick<View, "read" | "classes">,
  { sql, values, seconds, rowsMax, bytesMax }: Question,
): SqlResult {
  try {
    return view.read(sql, { rowsMax, bytesMax, timeMsMax: seconds * 1_000, values });
  } catch (error) {
    if (error instanceof QueryTooLong)
      throw new StatementStopped(
        `The query was stopped after ${seconds} seconds. Make it cheaper, or allow more seconds.`,
      );
    if (error instanceof TooManyRows)
      throw new QueryRefused(`The query has more than ${rowsMax} rows: add a LIMIT, or aggregate.`);
    if (error instanceof TooManyBytes) throw tooLarge(bytesMax);
    if (!(error instanceof Error) || !("resultCode" in error)) throw error;
    if ((Number(error.resultCode) & 0xff) === RESULT_NOMEM)
      throw new QueryRefused(
        "The query needs too much memory: sort, group or concatenate fewer rows or columns.",
      );
    const table = missingTable(error.message);
    if (table === undefined) throw new QueryRefused(`SQLite: ${error.message}`);
    const meant = nearest(table, ["agents", ...view.classes]);
    throw new UnknownClass(
      `There are no agents of class ${table}. ${meant === undefined ? '"agents query" lists the classes.' : `Did you mean ${meant}?`}`,
    );
  }
}

export const tooLarge = (bytesMax: number): QueryRefused =>
  new QueryRefused(
    `The answer is larger than ${bytesMax / 2 ** 20} MiB: select fewer rows or columns`,
  );

/**
 * SQLite has one code for all faults of a statement; only its message names a missing table.
 * Undefined: another fault.
 */
const missingTable = (message: string): string | undefined =>
  /^no such table: (?:main\.)?(.+?)(?: at offset \d+)?: SQLITE_ERROR$/.exec(message)?.[1];

/** A value as JSON has it: blobs are base64, integers past 2^53 strings. */
export type PlainValue = string | number | null;

export function plainValue(value: SqlValue): PlainValue {
  if (value instanceof Uint8Array) return toBase64(value);
  if (typeof value !== "bigint") return value;
  const number = Number(value);
  return Number.isSafeInteger(number) ? number : value.toString();
}

/** Rows as objects by column. */
export const rowObjects = ({
  columns,
  rows,
}: {
  readonly columns: ReadonlyArray<string>;
  readonly rows: ReadonlyArray<ReadonlyArray<PlainValue>>;
}): Array<Record<string, PlainValue>> =>
  rows.map((row) => Object.fromEntries(columns.map((column, n) => [column, row[n]!])));
