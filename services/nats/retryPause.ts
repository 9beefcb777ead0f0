/** The wait between two tries of an operation that must not give up yet: `NatsJournal`, `NatsInbox`, `ShardConsumer`. */
import { setTimeout as delay } from "node:timers/promises";
import type { NatsConnectionShape } from "./NatsConnection.ts";

/** First wait: about a leader election's shortest; doubled each time, so a long outage costs little. */
const FIRST_MS = 25;
const LONGEST_MS = 1_000;

/**
 * Resolves after the pause for `attempt` (0, 1, …; with jitter, so that all who lost a broker do not
 * return in step), then when the broker is connected, and at once when `signal` fires.
 */
export async function retryPause(
  connection: NatsConnectionShape,
  attempt: number,
  signal?: AbortSignal,
): Promise<void> {
  const longest = Math.min(LONGEST_MS, FIRST_MS * 2 ** Math.min(attempt, 10));
  const ms = longest * (0.5 + Math.random() / 2);
  // The only rejection is the signal's, and then there is nothing left to wait for.
  await delay(ms, undefined, signal === undefined ? {} : { signal }).catch(() => undefined);
  if (!connection.connected()) await connection.untilConnected(LONGEST_MS, signal);
}
