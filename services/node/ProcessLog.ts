/**
 * The log of a process: one JSON object per line, or a readable line on a terminal (`logLine`),
 * without repetitions (`repeatedLines`). Written to standard error, so that a command's own output
 * stays clean for scripts.
 */
import type { LogFields, LogShape } from "../../core/telemetry/Log.ts";
import { repeatedLines } from "../../core/telemetry/RepeatedLines.ts";
import type { TimeShape } from "../../core/time/Time.ts";
import { logLine, type LogLevel } from "./logLine.ts";
import { machineTime } from "./MachineTime.ts";

export type { LogLevel };

const LEVELS: ReadonlyArray<LogLevel> = ["debug", "info", "warn", "error"];

interface ProcessLogOptions {
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
  const at =
    (name: LogLevel) =>
    (message: string, own: LogFields = {}): void => {
      const fields = { ...always, ...own };
      write(logLine(format, { level: name, message, fields, timeMs: time.nowMs() }));
    };
  const log = repeatedLines(
    { debug: at("debug"), info: at("info"), warn: at("warn"), error: at("error") },
    // A command does not wait for it.
    (ms, f) => void setTimeout(f, ms).unref(),
  );
  if (options.write === undefined) process.once("exit", log.flush);
  const from = LEVELS.indexOf(level);
  const shown = (name: LogLevel): LogShape["info"] =>
    LEVELS.indexOf(name) < from ? () => undefined : log[name];
  return { debug: shown("debug"), info: shown("info"), warn: shown("warn"), error: shown("error") };
}
