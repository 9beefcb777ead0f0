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
  const timeMs = /^\d{4}-\d{2}/.test(text) ? Date.parse(text) : Number.NaN;
  if (!Number.isNaN(timeMs)) return timeMs;
  throw usage(`${option} ${text}: use how long ago (15m, 2h, 7d) or a time (2026-03-01T09:30:00Z)`);
}
