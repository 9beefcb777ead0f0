/** Reads a `Date` among the options of a call. Pure. */

/**
 * Milliseconds since the epoch; undefined for an option that is not given. Throws `TypeError` that
 * `what` has to be a valid `Date`.
 */
export function timeOf(what: string, value: unknown): number | undefined {
  if (value === undefined) return undefined;
  if (!(value instanceof Date) || Number.isNaN(value.getTime()))
    throw new TypeError(`${what} is a valid Date, such as new Date("2026-12-01")`);
  return value.getTime();
}
