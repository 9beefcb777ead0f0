/** The name and the options of a step, checked. Pure; errors name the step. */
import { resolveRetry, type ResolvedRetry } from "../retry/retryPolicy.ts";
import type { RetryOptions } from "../retry/RetryOptions.ts";
import { durationMs } from "../workflow/stepConfig.ts";
import type { StepOptions } from "./Step.ts";

export interface ResolvedStepOptions {
  readonly retry: ResolvedRetry;
  readonly timeoutMs: number;
}

/** As of a workflow's step. */
const TIMEOUT_MS_DEFAULT = 600_000;
/** A name is part of the journal and of every key. */
const NAME_CHARS_MAX = 256;
const OPTIONS: ReadonlySet<string> = new Set<keyof StepOptions>(["retry", "timeout"]);

export function checkStepName(name: unknown): asserts name is string {
  if (typeof name === "string" && name !== "" && name.length <= NAME_CHARS_MAX) return;
  throw new TypeError(
    `step(name, f): the name of a step is text of 1 to ${NAME_CHARS_MAX} characters`,
  );
}

/**
 * Throws `TypeError`, or an `Error` for a retry policy that is out of range; both name the step.
 */
export function resolveStepOptions(
  name: string,
  classRetry: RetryOptions | undefined,
  options: StepOptions,
): ResolvedStepOptions {
  for (const option of Object.keys(options))
    if (!OPTIONS.has(option))
      throw new TypeError(
        `step "${name}": there is no option "${option}"; there are ${[...OPTIONS].join(", ")}`,
      );
  const { timeout } = options;
  const timeoutMs =
    timeout === undefined ? TIMEOUT_MS_DEFAULT : durationMs(timeout, `step "${name}": timeout`);
  try {
    return { retry: resolveRetry(classRetry, options.retry), timeoutMs };
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    throw new Error(`step "${name}": ${why}`, { cause: error });
  }
}
