/**
 * The log of a process: one JSON object per line, or a readable line on a terminal. Written to
 * standard error, so that a command's own output stays clean for scripts. Control characters are
 * escaped. A line feed in a text line is followed by spaces, so that no field looks like a line of
 * its own.
 */
import * as Layer from "effect/Layer";
import { printable } from "../../core/telemetry/printable.ts";
import { Log, type LogFields, type LogShape } from "../../core/telemetry/Log.ts";
import type { TimeShape } from "../../core/time/Time.ts";
import { machineTime } from "./MachineTime.ts";

export type LogLevel = "debug" | "info" | "warn" | "error";
const LEVELS: ReadonlyArray<LogLevel> = ["debug", "info", "warn", "error"];

export interface ProcessLogOptions {
  /** Lines below this level are dropped. Default `info`. */
  readonly level?: LogLevel;
  /** Default: `text` on a terminal, otherwise `json`. */
  readonly format?: "json" | "text";
  /** Added to each line. */
  readonly fields?: LogFields;
  /** Default: standard error. `line` ends with a line feed. */
  readonly write?: (line: string) => void;
  readonly time?: TimeShape;
}

export function processLog(options: ProcessLogOptions = {}): LogShape {
  const {
    level = "info",
    format = process.stderr.isTTY ? "text" : "json",
    fields: always = {},
    write = (line: string) => void process.stderr.write(line),
    time = machineTime,
  } = options;
  const from = LEVELS.indexOf(level);
  const at =
    (name: LogLevel, rank: number) =>
    (message: string, own: LogFields = {}): void => {
      if (rank < from) return;
      const fields = { ...always, ...own };
      const iso = new Date(time.nowMs()).toISOString();
      const line =
        format === "json"
          ? jsonLine(iso, name, message, fields)
          : textLine(iso, name, message, fields);
      write(printable(line));
    };
  return { debug: at("debug", 0), info: at("info", 1), warn: at("warn", 2), error: at("error", 3) };
}

export const layer = (options: ProcessLogOptions = {}): Layer.Layer<Log> =>
  Layer.succeed(Log, processLog(options));

function jsonLine(time: string, level: LogLevel, message: string, fields: LogFields): string {
  try {
    return JSON.stringify({ time, level, message, ...fields }) + "\n";
  } catch {
    // A field that JSON can't represent must not lose the line.
    return JSON.stringify({ time, level, message, fields: String(fields) }) + "\n";
  }
}

function textLine(iso: string, level: LogLevel, message: string, fields: LogFields): string {
  const rest = Object.entries(fields)
    .map(([name, value]) => ` ${name}=${typeof value === "string" ? value : JSON.stringify(value)}`)
    .join("");
  const mark = level === "info" ? "" : `${level.toUpperCase()} `;
  return `${iso.slice(11, 19)} ${mark}${message}${rest}`.replaceAll("\n", "\n    ") + "\n";
}
