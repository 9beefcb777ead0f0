/**
 * Logs an error of an agent's code, which the default `onError` calls. An input that fails several
 * times with one error has its stack in the log once: later attempts name the error only.
 */
import type { AgentRuntime } from "./AgentRuntime.ts";

type Runtime = Pick<AgentRuntime, "log" | "currentCause">;

/** The last error of each agent in memory, with the key of its input. */
const lastErrors = new WeakMap<Runtime, string>();

export function logCodeError(runtime: Runtime, error: unknown): void {
  const text = error instanceof Error ? (error.stack ?? error.message) : String(error);
  const { id = "", attempt = 1 } = runtime.currentCause() ?? {};
  const isRepeated = attempt > 1 && lastErrors.get(runtime) === id + text;
  lastErrors.set(runtime, id + text);
  runtime.log.error("an error in the agent's code", {
    error: isRepeated && error instanceof Error ? `${error.name}: ${error.message}` : text,
    ...(isRepeated && { stack: "as of the attempt before" }),
  });
}
