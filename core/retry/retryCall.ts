/** `this.retry()`: calls a function until it succeeds or its attempts are spent. In memory only. */
import type { TimeShape } from "../time/Time.ts";
import type { RetryOptions } from "./RetryOptions.ts";
import { backoffMs, checkRetry, resolveRetry } from "./retryPolicy.ts";
import { sleep } from "../time/sleep.ts";

/** Options of `retry`. */
export interface RetryCallOptions extends RetryOptions {
  /** Returns false to stop retrying. `nextAttempt` counts from 1. Default: retries every error. */
  readonly shouldRetry?: (error: unknown, nextAttempt: number) => boolean;
}

/** `classRetry`: the class's own options, under those of the call. */
export async function retryCall<T>(
  f: (attempt: number) => Promise<T>,
  options: RetryCallOptions,
  { time, classRetry }: { readonly time: TimeShape; readonly classRetry: RetryOptions | undefined },
): Promise<T> {
  // Called in an attempt, it would be an error that is retried.
  if (typeof f !== "function")
    throw new TypeError(`retry(f, …): f must be a function, not ${typeof f}`);
  checkRetry("retry(f, …)", options);
  const { shouldRetry, ...given } = options;
  const policy = resolveRetry(classRetry, given);
  for (let attempt = 1; ; attempt++) {
    try {
      return await f(attempt);
    } catch (error) {
      if (attempt >= policy.maxAttempts) throw error;
      if (shouldRetry !== undefined && !shouldRetry(error, attempt + 1)) throw error;
      const delayMs = backoffMs(policy, attempt, time.random());
      await sleep(time, delayMs);
    }
  }
}
