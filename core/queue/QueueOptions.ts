/** The options of `queue()`, in either of their forms. */
import type { RetryOptions } from "../retry/RetryOptions.ts";

/** Options of `queue`. */
export interface QueueOptions {
  /** The retry policy of the item. Default: that of the class. */
  readonly retry?: RetryOptions;
  /** The item's id; random unless given. The same id again replaces the item that waits. */
  readonly id?: string;
}

/** Keys that tell an options object of `queue` from retry options given in its place. */
const RETRY_KEYS = ["maxAttempts", "baseDelayMs", "maxDelayMs"];

/** Retry options given in place of queue options become their `retry`. */
export const readQueueOptions = (options: RetryOptions | QueueOptions): QueueOptions =>
  RETRY_KEYS.some((key) => key in options)
    ? { retry: options as RetryOptions }
    : (options as QueueOptions);
