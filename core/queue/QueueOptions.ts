/** The options of `queue()`, in either of their forms. */
import { checkOptions } from "../errors/checkOptions.ts";
import { checkRetry } from "../retry/retryPolicy.ts";
import { RETRY_DEFAULT, type RetryOptions } from "../retry/RetryOptions.ts";

/** Options of `queue`. */
export interface QueueOptions {
  /** The retry policy of the item. Default: that of the class. */
  readonly retry?: RetryOptions;
  /** The item's id; random unless given. The same id again replaces the item that waits. */
  readonly id?: string;
}

const OPTIONS: ReadonlySet<string> = new Set<keyof QueueOptions>(["retry", "id"]);
/** Keys that tell retry options, given in place of queue options, from these. */
const RETRY_KEYS = Object.keys(RETRY_DEFAULT);

/**
 * Retry options given in place of queue options become their `retry`. `call` is what a `TypeError`
 * for an unknown option names.
 */
export function readQueueOptions(call: string, given: RetryOptions | QueueOptions): QueueOptions {
  const isRetry = Object(given) === given && RETRY_KEYS.some((key) => key in given);
  const options = isRetry ? { retry: given as RetryOptions } : (given as QueueOptions);
  checkOptions(call, options, OPTIONS);
  checkRetry(`${call}: retry`, options.retry);
  return options;
}
