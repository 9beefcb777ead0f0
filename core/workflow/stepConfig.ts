/**
 * The configuration of `step.do`: retries and timeout, as the reference writes them, and
 * spans of time. Pure.
 */

/** Milliseconds, or a number and a unit: `"10 seconds"`, `"1 day"`, `"1h"`. */
export type WorkflowDuration = number | string;

/** Options of `step.do`. */
export interface StepConfig {
  readonly retries?: {
    /** Times that a failed step is tried again; `Infinity` is allowed. Default 5. */
    readonly limit: number;
    /** Before the first retry. Default 10 seconds. */
    readonly delay: WorkflowDuration;
    /** How the delay grows with each failure. Default `exponential`. */
    readonly backoff?: Backoff;
  };
  /** The most time of one attempt. Default 10 minutes. */
  readonly timeout?: WorkflowDuration;
}

/** How the delay grows: not at all, by the delay each time, or twofold. */
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
/** A year, as on the reference's platform: what waits longer is better a schedule. */
export const WAIT_MS_MAX = 365 * 86_400_000;

/** Milliseconds of a second; the other units are multiples of it. */
const SECOND_MS = 1000;
const UNITS_MS: Readonly<Record<string, number>> = {
  ms: 1, s: SECOND_MS, m: 60 * SECOND_MS, h: 3600 * SECOND_MS, d: 86_400 * SECOND_MS,
  millisecond: 1, second: SECOND_MS, minute: 60 * SECOND_MS, hour: 3600 * SECOND_MS,
  day: 86_400 * SECOND_MS, week: 604_800 * SECOND_MS, month: 2_592_000 * SECOND_MS,
  year: 31_536_000 * SECOND_MS,
}; // prettier-ignore

/** Milliseconds. Throws `TypeError` for what is no span of time; `what` names it. */
export function durationMs(duration: unknown, what: string): number {
  if (typeof duration === "number" && duration >= 0 && Number.isFinite(duration)) return duration;
  const match =
    typeof duration === "string" ? /^\s*(\d+(?:\.\d+)?)\s*([a-z]+)\s*$/i.exec(duration) : null;
  const unit = match?.[2]?.toLowerCase();
  const unitMs = unit === undefined ? undefined : (UNITS_MS[unit] ?? UNITS_MS[unit.slice(0, -1)]);
  if (match === null || unitMs === undefined)
    throw new TypeError(
      `${what} is ${JSON.stringify(duration) ?? String(duration)}, which is no span of time: give milliseconds, or text like "10 seconds", "3 days"`,
    );
  return Number(match[1]) * unitMs;
}

/** Throws `TypeError` that names the step. */
export function resolveConfig(step: string, config: StepConfig = {}): ResolvedConfig {
  const { retries, timeout } = config;
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

/** Milliseconds to wait after so many failures. */
export function retryDelayMs({ delayMs, backoff }: ResolvedConfig, failures: number): number {
  const factor = { constant: 1, linear: failures, exponential: 2 ** (failures - 1) }[backoff];
  return Math.min(delayMs * factor, WAIT_MS_MAX);
}
