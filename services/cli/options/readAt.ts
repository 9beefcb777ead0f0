/**
 * Parses `--at`: the point in an agent's history that a command is about. A whole number is a
 * journal sequence. Anything else is a time, in the format that `history` and `state` print.
 */
import { usage } from "../terminal/CliError.ts";
import { timeOf } from "./readTime.ts";

export type Point = { readonly atSeq?: number; readonly atTimeMs?: number };

/**
 * Returns an empty point, which means now, for undefined. Throws `CliError` for any other text;
 * `option` is named in its message.
 */
export function readAt(text: string | undefined, option = "--at"): Point {
  if (text === undefined) return {};
  if (/^\d+$/.test(text)) return { atSeq: Number(text) };
  const atTimeMs = timeOf(text);
  if (atTimeMs === undefined)
    throw usage(
      `${option} ${text}: use a journal sequence (${option} 42) or a time (${option} 2026-03-01T09:30:00Z)`,
    );
  return { atTimeMs };
}

export const describePoint = (point: Point): string =>
  point.atSeq !== undefined
    ? `at sequence ${point.atSeq}`
    : point.atTimeMs !== undefined
      ? `at ${new Date(point.atTimeMs).toISOString()}`
      : "";
