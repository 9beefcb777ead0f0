/**
 * Parses spans of virtual time as people write them: `250`, `"90 s"`, `"3 days"`, `"1h 30m"`. Pure.
 */

/** Milliseconds, or one or more pairs of a number and a unit. */
export type Duration = number | string;

/** Milliseconds per second; the other units are multiples of it. */
const SECOND_MS = 1000;
const UNITS_MS: Readonly<Record<string, number>> = {
  ms: 1, millisecond: 1, milliseconds: 1,
  s: SECOND_MS, sec: SECOND_MS, second: SECOND_MS, seconds: SECOND_MS,
  m: 60 * SECOND_MS, min: 60 * SECOND_MS, minute: 60 * SECOND_MS, minutes: 60 * SECOND_MS,
  h: 3600 * SECOND_MS, hour: 3600 * SECOND_MS, hours: 3600 * SECOND_MS,
  d: 86_400 * SECOND_MS, day: 86_400 * SECOND_MS, days: 86_400 * SECOND_MS,
  w: 604_800 * SECOND_MS, week: 604_800 * SECOND_MS, weeks: 604_800 * SECOND_MS,
}; // prettier-ignore

const PART = /(\d+(?:\.\d+)?)\s*([a-z]+)/gi;

/** Returns milliseconds. Throws `TypeError` for an invalid or negative duration. */
export function parseDuration(duration: Duration): number {
  if (typeof duration === "number" && duration >= 0 && Number.isFinite(duration)) return duration;
  if (typeof duration === "string" && duration.replace(PART, "").trim() === "") {
    const parts = [...duration.matchAll(PART)].map(
      ([, count, unit]) => Number(count) * (UNITS_MS[unit!.toLowerCase()] ?? Number.NaN),
    );
    const totalMs = parts.reduce((sum, ms) => sum + ms, 0);
    if (parts.length > 0 && !Number.isNaN(totalMs)) return totalMs;
  }
  throw new TypeError(
    `${JSON.stringify(duration)} is not a duration: use milliseconds, or text like "3 days", "90 s" or "1h 30m"`,
  );
}
