/**
 * The retry policy: `RetryOptions` merged and checked, and the backoff (`protocol.md` §6.5). Pure.
 * After failed attempt n the wait is `floor(random · min(base · 2^n, max))`: full jitter.
 */
import type { LogShape } from "../telemetry/Log.ts";
import { checkOptions } from "../errors/checkOptions.ts";
import { withDefaults } from "../collections/withDefaults.ts";
import { WAIT_MS_MAX } from "../time/durationMs.ts";
import { RETRY_DEFAULT, type RetryOptions } from "./RetryOptions.ts";

/** As of a workflow's step: an undo that kills its host each time is given up. */
const UNDOING_DEATHS_MAX = 20;

export interface ResolvedRetry {
  readonly maxAttempts: number;
  readonly baseDelayMs: number;
  readonly maxDelayMs: number;
}

/** `shouldRetry` is for `retry()`; `interface.md` §2.3 has it in every policy. */
export const RETRY_OPTIONS: ReadonlySet<string> = new Set([
  ...Object.keys(RETRY_DEFAULT),
  "shouldRetry",
]);

/** Throws `TypeError` for an option that no policy has. `what` says whose policy it is. */
export function checkRetry(what: string, retry: RetryOptions | undefined): void {
  if (retry !== undefined) checkOptions(what, retry, RETRY_OPTIONS);
}

/** Per-call options over the class's over the defaults. Throws `Error` with the specified texts. */
export function resolveRetry(...options: ReadonlyArray<RetryOptions | undefined>): ResolvedRetry {
  const merged = withDefaults<ResolvedRetry>(RETRY_DEFAULT, ...options);
  const { maxAttempts, baseDelayMs, maxDelayMs } = merged;
  if (!Number.isInteger(maxAttempts)) throw new Error("retry.maxAttempts must be an integer");
  if (maxAttempts < 1) throw new Error("retry.maxAttempts must be >= 1");
  if (!(baseDelayMs > 0)) throw new Error("retry.baseDelayMs must be > 0");
  if (!(maxDelayMs > 0)) throw new Error("retry.maxDelayMs must be > 0");
  if (baseDelayMs > maxDelayMs) throw new Error("retry.baseDelayMs must be <= retry.maxDelayMs");
  return finiteRetry(merged);
}

/**
 * A policy, or part of one, with delays that JSON keeps: `WAIT_MS_MAX` in place of a longer one, as
 * `Infinity`, and of null, which older releases stored for `Infinity`.
 */
export function finiteRetry<T extends RetryOptions>(retry: T): T {
  const { baseDelayMs = 0, maxDelayMs = 0 } = retry;
  const isLong = (ms: number | null): boolean => ms === null || ms > WAIT_MS_MAX;
  if (!isLong(baseDelayMs) && !isLong(maxDelayMs)) return retry;
  return {
    ...retry,
    ...(isLong(baseDelayMs) && { baseDelayMs: WAIT_MS_MAX }),
    ...(isLong(maxDelayMs) && { maxDelayMs: WAIT_MS_MAX }),
  };
}

/** The policy of an agent's inputs. Options out of range are logged, and the defaults hold. */
export function retryOf({
  options,
  log,
}: {
  readonly options: { readonly retry?: RetryOptions };
  readonly log: LogShape;
}): ResolvedRetry {
  try {
    return resolveRetry(options.retry);
  } catch (error) {
    log.error("static options.retry is invalid; the defaults are used", { error: String(error) });
    return resolveRetry();
  }
}

/**
 * The last attempt allowed of an input whose hosts died: it may have been at its last one, unless
 * `isKnown` says that the attempt before ended its process.
 */
export const lastAttempt = (
  { maxAttempts }: ResolvedRetry,
  { isUndoing, isKnown }: { readonly isUndoing: boolean; readonly isKnown: boolean },
): number => maxAttempts + (isUndoing ? UNDOING_DEATHS_MAX : isKnown ? 0 : 1);

/** Milliseconds to wait after failed attempt `attempt` (1-based); `random` is uniform in [0, 1). */
export const backoffMs = (retry: ResolvedRetry, attempt: number, random: number): number =>
  Math.floor(random * Math.min(retry.baseDelayMs * 2 ** attempt, retry.maxDelayMs));
