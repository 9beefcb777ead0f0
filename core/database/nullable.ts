/**
 * Reads columns that may be NULL. Other columns of the runtime's own tables are read by `String`
 * and `Number`.
 */
import type { SqlValue } from "./Databases.ts";

/** `value`: of a row that has the column. */
export const textOrNull = (value: SqlValue | undefined): string | null =>
  value == null ? null : String(value);

/** As `textOrNull`, for numbers. */
export const numberOrNull = (value: SqlValue | undefined): number | null =>
  value == null ? null : Number(value);
