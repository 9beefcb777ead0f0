/**
 * The log port of a process: text for people on a terminal, one JSON object a line elsewhere.
 * Always on stderr; results are on stdout.
 */
import type { LogFields, LogShape } from "../../core/log/Log.ts";
import type { TimeShape } from "../../core/time/Time.ts";
import type { Terminal } from "./Terminal.ts";

export const LOG_LEVELS = ["debug", "info", "warn", "error"] as const;
export type LogLevel = (typeof LOG_LEVELS)[number];

export interface LogOptions {
  /** What is below is dropped. */
  readonly level: LogLevel;
  readonly format: "text" | "json";
}

export function consoleLog(
  terminal: Pick<Terminal, "err">,
  time: Pick<TimeShape, "nowMs">,
  options: LogOptions,
): LogShape {
  const write = options.format === "json" ? jsonLine : textLine;
  const at =
    (level: LogLevel) =>
    (message: string, fields: LogFields = {}) => {
      if (LOG_LEVELS.indexOf(level) < LOG_LEVELS.indexOf(options.level)) return;
      terminal.err(write(level, new Date(time.nowMs()).toISOString(), message, fields));
    };
  return { debug: at("debug"), info: at("info"), warn: at("warn"), error: at("error") };
}

function jsonLine(level: LogLevel, time: string, message: string, fields: LogFields): string {
  return JSON.stringify({ time, level, message, ...fields }, printable);
}

function textLine(level: LogLevel, time: string, message: string, fields: LogFields): string {
  const pairs = Object.entries(fields).map(([name, value]) => `${name}=${short(value)}`);
  // Date and zone are noise in front of somebody who watches.
  return [time.slice(11, 23), level.padEnd(5), message, ...pairs].join(" ");
}

function short(value: unknown): string {
  if (value instanceof Error) return value.stack ?? String(value);
  return typeof value === "string" && /^[^\s"=]+$/.test(value)
    ? value
    : (JSON.stringify(value, printable) ?? String(value));
}

/** What JSON leaves out or refuses. */
function printable(_key: string, value: unknown): unknown {
  if (value instanceof Error) return value.stack ?? String(value);
  return typeof value === "bigint" ? value.toString() : value;
}
