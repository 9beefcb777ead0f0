/**
 * Options whose value is a time or a point of an agent's history, and the readers of such values. A
 * whole number is a journal sequence. Anything else is a time (ISO 8601), in the form that
 * `history` and `state` print, or how long ago (`15m`, `2h`, `7d`).
 */
import { Option } from "commander";
import type { TimeShape } from "../../../core/time/Time.ts";
import { usage } from "../terminal/CliError.ts";
import { parsed } from "./argumentParsers.ts";

/** A point of an agent's history; empty: now. */
export type Point = { readonly atSeq?: number; readonly atTimeMs?: number };

type Clock = Pick<TimeShape, "nowMs">;

/** The value is a `Point`. */
export const pointOption = (flags: string, about: string, time: Clock): Option =>
  new Option(flags, about).argParser(parsed((text) => readPoint(text, time.nowMs())));

export const at = (time: Clock): Option =>
  pointOption(
    "--at <point>",
    "as of this journal sequence or time: 42, 2026-03-01T09:30:00Z, or 2h for two hours ago",
    time,
  );

/** The value is in milliseconds since the epoch. */
export const timeOption = (flags: string, about: string, time: Clock): Option =>
  new Option(flags, about).argParser(parsed((text) => readTime(text, time.nowMs())));

export const since = (time: Clock): Option =>
  timeOption("--since <time>", "only since then: 15m, 2h, 7d, or a time", time);

/** Throws `CliError`. */
export function readPoint(text: string, nowMs: number): Point {
  if (/^\d+$/.test(text)) return { atSeq: Number(text) };
  const atTimeMs = timeOf(text, nowMs);
  if (atTimeMs !== undefined) return { atTimeMs };
  throw usage(
    "Use a journal sequence (42), a time (2026-03-01T09:30:00Z) or how long ago (15m, 2h, 7d).",
  );
}

/** Milliseconds since the epoch. Throws `CliError`. */
export function readTime(text: string, nowMs: number): number {
  const timeMs = timeOf(text, nowMs);
  if (timeMs !== undefined) return timeMs;
  throw usage("Use a time (2026-03-01T09:30:00Z) or how long ago (15m, 2h, 7d).");
}

/** Times in milliseconds since the epoch; without `untilMs`: until now. */
export interface TimeRange {
  readonly sinceMs: number;
  readonly untilMs?: number;
}

/** Parses `2h..30m` and `2h..`. Throws `CliError`. */
export function readRange(text: string, nowMs: number): TimeRange {
  const [from = "", to, ...rest] = text.split("..");
  const sinceMs = timeOf(from, nowMs);
  const untilMs = to === undefined || to === "" ? undefined : timeOf(to, nowMs);
  const isWrongEnd = to === undefined || (to !== "" && untilMs === undefined);
  if (sinceMs === undefined || isWrongEnd || rest.length > 0)
    throw usage("Use two times with .. between them, as in 2h..30m; the second may be left out.");
  return { sinceMs, ...(untilMs !== undefined && { untilMs }) };
}

/** With a blank before it; nothing for now. */
export const describePoint = (point: Point): string =>
  point.atSeq !== undefined
    ? ` at sequence ${point.atSeq}`
    : point.atTimeMs !== undefined
      ? ` at ${new Date(point.atTimeMs).toISOString()}`
      : "";

const UNITS_MS: Readonly<Record<string, number>> = {
  s: 1_000,
  m: 60_000,
  h: 3_600_000,
  d: 86_400_000,
};
const DATE = /^(\d{4})-(\d{2})(?:-(\d{2}))?/;

/**
 * Milliseconds since the epoch. Undefined for a text that is no time, for a time that no `Date` can
 * have, and for a day that its month does not have: `Date.parse` takes 30 February for 2 March.
 */
function timeOf(text: string, nowMs: number): number | undefined {
  const ago = /^(\d+)([smhd])$/.exec(text);
  if (ago !== null) {
    const agoMs = new Date(nowMs - Number(ago[1]) * UNITS_MS[ago[2]!]!).getTime();
    return Number.isNaN(agoMs) ? undefined : agoMs;
  }
  const [date, year, month, day = "1"] = DATE.exec(text) ?? [];
  const timeMs = date === undefined ? Number.NaN : Date.parse(text);
  const daysOfMonth = new Date(Date.UTC(Number(year), Number(month), 0)).getUTCDate();
  return Number.isNaN(timeMs) || Number(day) > daysOfMonth ? undefined : timeMs;
}
