/**
 * One line of a log, as JSON or for people. Control characters are escaped, and stacks are
 * shortened (`withoutRuntimeFrames`). A line feed in a text line is followed by spaces, so that no
 * field looks like a line of its own. Imports nothing heavy: a thread that only watches writes
 * lines, too.
 */
import { messageOf } from "../../core/errors/thrown.ts";
import { renameFields, TEXT, type LogFields } from "../../core/telemetry/Log.ts";
import { printable } from "../../core/telemetry/printable.ts";
import { withoutLoadMark } from "./loadMark.ts";
import { FRAME, withoutRuntimeFrames } from "./withoutRuntimeFrames.ts";

export type LogLevel = "debug" | "info" | "warn" | "error";

interface LogEntry {
  readonly level: LogLevel;
  readonly message: string;
  readonly fields: LogFields;
  /** Since the epoch. */
  readonly timeMs: number;
}

/** Ends with a line feed. */
export function logLine(format: "json" | "text", given: LogEntry): string {
  const entry = { ...given, fields: shortened(given.fields) };
  const iso = new Date(entry.timeMs).toISOString();
  return withoutLoadMark(
    printable(format === "json" ? jsonLine(iso, entry) : textLine(iso, entry)),
  );
}

/** The fields with stacks as their reader needs them. */
function shortened(fields: LogFields): LogFields {
  const { error, stack } = fields;
  return {
    ...fields,
    ...(hasFrames(error) && { error: withoutRuntimeFrames(error) }),
    ...(hasFrames(stack) && { stack: withoutRuntimeFrames(stack) }),
  };
}

const hasFrames = (value: unknown): value is string =>
  typeof value === "string" && value.includes(FRAME);

/** The members that each line of JSON has. */
const OWN = ["time", "level", "message"];

function jsonLine(time: string, { level, message, fields }: LogEntry): string {
  const line = { time, level, message, ...renameFields(fields, OWN) };
  try {
    return JSON.stringify(line) + "\n";
  } catch {
    const entries = Object.entries(line).map(([name, value]) => [name, asJson(value)]);
    return JSON.stringify(Object.fromEntries(entries)) + "\n";
  }
}

/** A value that JSON can't represent, such as a bigint, is its text: it must not lose the line. */
function asJson(value: unknown): unknown {
  try {
    JSON.stringify(value);
    return value;
  } catch {
    return messageOf(value);
  }
}

function textLine(iso: string, { level, message, fields }: LogEntry): string {
  const mark = level === "info" ? "" : `${level.toUpperCase()} `;
  const text = fields[TEXT]?.() ?? message + textOf(fields);
  return `${iso.slice(11, 19)} ${mark}${text}`.replaceAll("\n", "\n    ") + "\n";
}

const textOf = (fields: LogFields): string =>
  Object.entries(fields)
    .map(([name, value]) => [name, asJson(value)] as const)
    .map(([name, value]) => ` ${name}=${typeof value === "string" ? value : JSON.stringify(value)}`)
    .join("");
