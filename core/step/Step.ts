/**
 * What `this.step` takes and gives: types and the checks of its options. `AgentSteps` runs steps.
 */
import { resolveRetry, type ResolvedRetry } from "../retry/retryPolicy.ts";
import type { RetryOptions } from "../retry/RetryOptions.ts";
import { durationMs } from "../workflow/stepConfig.ts";

/** What the function of a step receives. */
export interface Step {
  readonly name: string;
  /**
   * Identifies this step of this input of this agent: the same in each attempt, on each host. An
   * idempotency key for what the step calls; printable ASCII, at most 255 characters.
   */
  readonly key: string;
  /** Number of this attempt since the step was begun in this run, from 1. */
  readonly attempt: number;
  /** Fires when the attempt has timed out, and when the agent leaves memory. */
  readonly signal: AbortSignal;
}

export interface StepOptions {
  /** Over the class's `static options.retry`. Attempts in all, the first included: 3 by default. */
  readonly retry?: RetryOptions;
  /** Of one attempt: milliseconds, or text like `"30 seconds"`. Default 10 minutes. */
  readonly timeout?: number | string;
}

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

/** Throws `TypeError`, or an `Error` for a retry policy that is out of range; both name the step. */
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
