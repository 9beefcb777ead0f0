/**
 * Spans of time as people write them in options: of workflows, steps, approvals, durable streams.
 * Pure. Each caller names what it reads, for the error.
 */

/** Milliseconds, or a number and a unit: `"10 seconds"`, `"1 day"`, `"1h"`. */
export type Duration = number | string;

/** A year, as on the reference's platform: what waits longer is better a schedule. */
export const WAIT_MS_MAX = 365 * 86_400_000;

/** Milliseconds of a second; the other units are multiples of it. */
const SECOND_MS = 1000;
const UNITS_MS: Readonly<Record<string, number>> = {
  ms: 1, s: SECOND_MS, m: 60 * SECOND_MS, h: 3600 * SECOND_MS, d: 86_400 * SECOND_MS,
  millisecond: 1, second: SECOND_MS, minute: 60 * SECOND_MS, hour: 3600 * SECOND_MS,
  day: 86_400 * SECOND_MS, week: 604_800 * SECOND_MS, month: 2_592_000 * SECOND_MS,
  year: 31_536_000 * SECOND_MS,
}; // prettier-ignore

/** Milliseconds. Throws `TypeError` for an invalid span of time; `what` names it. */
export function durationMs(duration: unknown, what: string): number {
  if (typeof duration === "number" && duration >= 0 && Number.isFinite(duration)) return duration;
  const match =
    typeof duration === "string" ? /^\s*(\d+(?:\.\d+)?)\s*([a-z]+)\s*$/i.exec(duration) : null;
  const unit = match?.[2]?.toLowerCase();
  const unitMs = unit === undefined ? undefined : (UNITS_MS[unit] ?? UNITS_MS[unit.slice(0, -1)]);
  if (match === null || unitMs === undefined)
    throw new TypeError(
      `${what} is ${typeof duration === "string" ? JSON.stringify(duration) : String(duration)}, which is not a duration: use milliseconds, or text like "10 seconds" or "3 days"`,
    );
  return Number(match[1]) * unitMs;
}
