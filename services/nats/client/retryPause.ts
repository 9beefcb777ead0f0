/**
 * The pause between two attempts of a retried operation: `NatsJournal`, `NatsInbox`,
 * `ShardConsumer`.
 */
import { setTimeout as delay } from "node:timers/promises";
import type { NatsConnectionShape } from "./NatsConnection.ts";

/** About the shortest leader election. Doubled each time, so that a long outage costs little. */
const FIRST_MS = 25;
/** Bounds the delay with which the end of an outage is noticed. */
const LONGEST_MS = 1_000;

/**
 * Waits for the pause of `attempt` (0, 1, …), then up to a second for a connection. Resolves at
 * once when `signal` fires; never rejects. The pause has jitter, so that processes that lost a
 * broker do not return in step.
 */
export async function retryPause(
  connection: NatsConnectionShape,
  attempt: number,
  signal?: AbortSignal,
): Promise<void> {
  const longest = Math.min(LONGEST_MS, FIRST_MS * 2 ** Math.min(attempt, 10));
  const ms = longest * (0.5 + Math.random() / 2);
  // It rejects only for the signal, and then nothing is left to wait for.
  await delay(ms, undefined, signal === undefined ? {} : { signal }).catch(() => undefined);
  if (!connection.connected()) await connection.untilConnected(LONGEST_MS, signal);
}
