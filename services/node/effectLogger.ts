/**
 * Effect's own log lines in the form of the process's: what a layer or a library logs through
 * Effect reaches `Log`, and a process has one format.
 */
import * as Cause from "effect/Cause";
import type * as Layer from "effect/Layer";
import * as Logger from "effect/Logger";
import type { LogShape } from "../../core/telemetry/Log.ts";

/** Replaces Effect's loggers where it is provided. */
export const effectLogger = (log: LogShape): Layer.Layer<never> =>
  Logger.layer([
    Logger.make<unknown, void>(({ message, logLevel, cause }) => {
      const failed = cause.reasons.length > 0;
      log[levelOf(logLevel)](
        [message].flat().map(textOf).join(" "),
        failed ? { error: Cause.pretty(cause) } : {},
      );
    }),
  ]);

function levelOf(level: string): keyof LogShape {
  switch (level) {
    case "Fatal":
    case "Error":
      return "error";
    case "Warn":
      return "warn";
    case "Info":
      return "info";
    default:
      return "debug";
  }
}

const textOf = (part: unknown): string =>
  typeof part === "string" ? part : part instanceof Error ? part.message : JSON.stringify(part);
