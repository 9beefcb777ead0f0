/**
 * How often and how fast something is tried again, as users say it: for a class, a queue item, a
 * schedule, a mail, an MCP server. `retryPolicy` merges and checks the options.
 */
export interface RetryOptions {
  /** At least 1, the first attempt included. Default 3. */
  readonly maxAttempts?: number;
  /** Above 0, at most `maxDelayMs`. Default 100. */
  readonly baseDelayMs?: number;
  /** The longest wait between two attempts. Default 3,000. */
  readonly maxDelayMs?: number;
}

export const RETRY_DEFAULT = { maxAttempts: 3, baseDelayMs: 100, maxDelayMs: 3000 } as const;
