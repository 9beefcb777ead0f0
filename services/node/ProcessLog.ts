/**
 * The log of a process: one JSON object per line, or a readable line on a terminal (`logLine`).
 * Written to standard error, so that a command's own output stays clean for scripts.
 */
import type { LogFields, LogShape } from "../../core/telemetry/Log.ts";
import type { TimeShape } from "../../core/time/Time.ts";
import { logLine, type LogLevel } from "./logLine.ts";
import { machineTime } from "./MachineTime.ts";

export type { LogLevel };

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
      write(logLine(format, { level: name, message, fields, timeMs: time.nowMs() }));
    };
  return { debug: at("debug", 0), info: at("info", 1), warn: at("warn", 2), error: at("error", 3) };
}
