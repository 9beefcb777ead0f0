/**
 * Parses durations as people write them: in options of workflows, steps, approvals and durable
 * streams, and in tests that advance virtual time. Pure. Each caller names the value for the error.
 */

/** Milliseconds, or numbers with units, which are added: `"10 seconds"`, `"1 day"`, `"1h 30m"`. */
export type Duration = number | string;

/** A year, as on the reference's platform: what waits longer is better a schedule. */
export const WAIT_MS_MAX = 365 * 86_400_000;

/** Milliseconds per second; the other units are multiples of it. */
const SECOND_MS = 1000;
/** Each may end in `s`: `"3 days"`. */
const UNITS_MS: Readonly<Record<string, number>> = {
  ms: 1, s: SECOND_MS, m: 60 * SECOND_MS, h: 3600 * SECOND_MS, d: 86_400 * SECOND_MS,
  w: 604_800 * SECOND_MS, sec: SECOND_MS, min: 60 * SECOND_MS,
  millisecond: 1, second: SECOND_MS, minute: 60 * SECOND_MS, hour: 3600 * SECOND_MS,
  day: 86_400 * SECOND_MS, week: 604_800 * SECOND_MS, month: 2_592_000 * SECOND_MS,
  year: 31_536_000 * SECOND_MS,
}; // prettier-ignore

const PART = /(\d+(?:\.\d+)?)\s*([a-z]+)/gi;

/** Returns milliseconds. Throws `TypeError` for an invalid duration; `what` names it. */
export function durationMs(duration: unknown, what: string): number {
  if (typeof duration === "number" && duration >= 0 && Number.isFinite(duration)) return duration;
  const ms = typeof duration === "string" ? textMs(duration) : Number.NaN;
  if (!Number.isNaN(ms)) return ms;
  const given = typeof duration === "string" ? JSON.stringify(duration) : String(duration);
  throw new TypeError(
    `${what} is ${given}, which is not a duration: use milliseconds, or text like "10 seconds", "3 days" or "1h 30m"`,
  );
}

/** NaN for text that is not a duration. */
function textMs(text: string): number {
  const parts = [...text.matchAll(PART)];
  if (parts.length === 0 || text.replace(PART, "").trim() !== "") return Number.NaN;
  return parts.reduce((sum, [, count, unit]) => sum + Number(count) * unitMs(unit!), 0);
}

function unitMs(text: string): number {
  const unit = text.toLowerCase();
  return UNITS_MS[unit] ?? UNITS_MS[unit.replace(/s$/, "")] ?? Number.NaN;
}
