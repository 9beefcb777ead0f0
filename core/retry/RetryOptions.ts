/**
 * Owns the retry options that users set: for a class, a queue item, a schedule, a mail, an MCP
 * server. `retryPolicy` merges and checks them.
 */

/**
 * How often and how fast something is retried. After failed attempt n the wait is `random ·
 * min(baseDelayMs · 2^n, maxDelayMs)`. Values out of range throw an `Error` that names the field.
 */
export interface RetryOptions {
  /** Attempts in all, the first included: an integer of at least 1. Default 3. */
  readonly maxAttempts?: number;
  /** Milliseconds, more than 0 and at most `maxDelayMs`. Default 100. */
  readonly baseDelayMs?: number;
  /** The longest wait, in milliseconds. `Infinity`: no limit. Default 3,000. */
  readonly maxDelayMs?: number;
}

export const RETRY_DEFAULT = { maxAttempts: 3, baseDelayMs: 100, maxDelayMs: 3000 } as const;
