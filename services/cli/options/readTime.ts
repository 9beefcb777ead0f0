/**
 * Parses a point in time that people type: a time (ISO 8601), or how long ago (`15m`, `2h`, `7d`).
 */
import { usage } from "../terminal/CliError.ts";

const UNITS_MS: Readonly<Record<string, number>> = {
  s: 1_000,
  m: 60_000,
  h: 3_600_000,
  d: 86_400_000,
};

/** Milliseconds since the epoch. Throws `CliError`; `option` is named in its message. */
export function readTime(text: string, option: string, nowMs: number): number {
  const ago = /^(\d+)([smhd])$/.exec(text);
  if (ago !== null) return nowMs - Number(ago[1]) * UNITS_MS[ago[2]!]!;
  const timeMs = timeOf(text);
  if (timeMs !== undefined) return timeMs;
  throw usage(`${option} ${text}: use how long ago (15m, 2h, 7d) or a time (2026-03-01T09:30:00Z)`);
}

const DATE = /^(\d{4})-(\d{2})(?:-(\d{2}))?/;

/**
 * Milliseconds since the epoch of a time (ISO 8601). Undefined for any other text, and for a day
 * that its month does not have: `Date.parse` takes 30 February for 2 March.
 */
export function timeOf(text: string): number | undefined {
  const [date, year, month, day = "1"] = DATE.exec(text) ?? [];
  const timeMs = date === undefined ? Number.NaN : Date.parse(text);
  const daysOfMonth = new Date(Date.UTC(Number(year), Number(month), 0)).getUTCDate();
  return Number.isNaN(timeMs) || Number(day) > daysOfMonth ? undefined : timeMs;
}
