/**
 * The configuration of `step.do`: retries and timeout, as the reference writes them. Pure.
 * `Steps` resolves it, `Execution` applies it.
 */
import { checkOptions } from "../errors/checkOptions.ts";
import { durationMs, WAIT_MS_MAX, type Duration } from "../time/durationMs.ts";

/** Milliseconds, or a number and a unit: `"10 seconds"`, `"1 day"`, `"1h"`. */
export type WorkflowDuration = Duration;

/** Options of `step.do`. */
export interface StepConfig {
  readonly retries?: {
    /** Maximum retries of a failed step; `Infinity` is allowed. Default 5. */
    readonly limit: number;
    /** Before the first retry. Default 10 seconds. */
    readonly delay: WorkflowDuration;
    /** How the delay grows with each failure. Default `exponential`. */
    readonly backoff?: Backoff;
  };
  /** The timeout of one attempt. Default 10 minutes. */
  readonly timeout?: WorkflowDuration;
}

/** How the delay grows: not at all, by the delay each time, or by doubling. */
export type Backoff = "constant" | "linear" | "exponential";

export interface ResolvedConfig {
  readonly limit: number;
  readonly delayMs: number;
  readonly backoff: Backoff;
  readonly timeoutMs: number;
}

/** The reference platform's defaults. */
const DEFAULTS: ResolvedConfig = {
  limit: 5,
  delayMs: 10_000,
  backoff: "exponential",
  timeoutMs: 600_000,
};

/** `sensitive` is the reference's: accepted and ignored, because no page shows a step's result. */
const OPTIONS: ReadonlySet<string> = new Set(["retries", "timeout", "sensitive"]);
const RETRIES: ReadonlySet<string> = new Set(["limit", "delay", "backoff"]);

/** Throws `TypeError` that names the step. */
export function resolveConfig(step: string, config: StepConfig = {}): ResolvedConfig {
  checkOptions(`step "${step}"`, config, OPTIONS);
  const { retries, timeout } = config;
  if (retries !== undefined) checkOptions(`step "${step}": retries`, retries, RETRIES);
  const limit = retries?.limit ?? DEFAULTS.limit;
  if (!(limit === Infinity || (Number.isInteger(limit) && limit >= 0)))
    throw new TypeError(`step "${step}": retries.limit must be a whole number from 0, or Infinity`);
  const backoff = retries?.backoff ?? DEFAULTS.backoff;
  if (!["constant", "linear", "exponential"].includes(backoff))
    throw new TypeError(
      `step "${step}": retries.backoff must be "constant", "linear" or "exponential"`,
    );
  const span = (given: WorkflowDuration | undefined, what: string, absent: number): number =>
    given === undefined ? absent : durationMs(given, `step "${step}": ${what}`);
  return {
    limit,
    delayMs: span(retries?.delay, "retries.delay", DEFAULTS.delayMs),
    backoff,
    timeoutMs: span(timeout, "timeout", DEFAULTS.timeoutMs),
  };
}

/** Milliseconds to wait after that many failures. */
export function retryDelayMs({ delayMs, backoff }: ResolvedConfig, failures: number): number {
  const factor = { constant: 1, linear: failures, exponential: 2 ** (failures - 1) }[backoff];
  return Math.min(delayMs * factor, WAIT_MS_MAX);
}
