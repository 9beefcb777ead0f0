/** The options of a step, checked. Pure; errors name the step. */
import { checkOptions } from "../errors/checkOptions.ts";
import { resolveRetry, type ResolvedRetry } from "../retry/retryPolicy.ts";
import { RETRY_DEFAULT, type RetryOptions } from "../retry/RetryOptions.ts";
import { durationMs } from "../time/durationMs.ts";
import type { StepOptions } from "./Step.ts";
import { messageOf } from "../errors/thrown.ts";

export interface ResolvedStepOptions {
  readonly retry: ResolvedRetry;
  readonly timeoutMs: number;
}

/** The default of a workflow's step, too. */
const TIMEOUT_MS_DEFAULT = 600_000;
const OPTIONS: ReadonlySet<string> = new Set<keyof StepOptions>(["retry", "timeout", "undo"]);
const RETRY: ReadonlySet<string> = new Set(Object.keys(RETRY_DEFAULT));

/** Throws `TypeError`, or `Error` for a retry policy that is out of range; both name the step. */
export function resolveStepOptions(
  name: string,
  classRetry: RetryOptions | undefined,
  options: StepOptions<never>,
): ResolvedStepOptions {
  checkOptions(`step "${name}"`, options, OPTIONS);
  const { retry, timeout, undo } = options;
  if (retry !== undefined) checkOptions(`step "${name}": retry`, retry, RETRY);
  if (undo !== undefined && typeof undo !== "function")
    throw new TypeError(
      `step "${name}": undo must be a function, which receives the step's result`,
    );
  const timeoutMs =
    timeout === undefined ? TIMEOUT_MS_DEFAULT : durationMs(timeout, `step "${name}": timeout`);
  try {
    return { retry: resolveRetry(classRetry, retry), timeoutMs };
  } catch (error) {
    const why = messageOf(error);
    throw new Error(`step "${name}": ${why}`, { cause: error });
  }
}
