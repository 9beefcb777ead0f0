/**
 * Detects a server that answers this process's connection and stores nothing, such as one that is
 * cut off from its cluster, and reconnects to another server. The client alone would stay, because
 * the server still answers its pings. Fed by `NatsLeases`: every process writes a lease at least
 * once per third of a TTL.
 *
 * Where no server stores anything the process tries them all in turn. This does no further harm: it
 * holds no shard then, and accepts no webhook.
 */
import type { NatsConnectionShape } from "./NatsConnection.ts";

/** Longer than a healthy cluster needs to elect a leader (4 to 9 s on nats-server 2.15.1). */
const STALLED_MS = 10_000;

export class StallDetector {
  /** When the first write since the last answered one failed, by the monotonic clock. */
  private sinceMs: number | undefined;

  constructor(private readonly connection: NatsConnectionShape) {
    connection.onChange(() => (this.sinceMs = undefined));
  }

  /** Reports whether a write to a stream, or a request to its leader, was answered. */
  heard(answered: boolean): void {
    if (answered || !this.connection.connected()) {
      this.sinceMs = undefined;
      return;
    }
    const nowMs = performance.now();
    this.sinceMs ??= nowMs;
    if (nowMs - this.sinceMs < STALLED_MS) return;
    this.sinceMs = undefined;
    this.connection.log("warn", "the connected server stores nothing; reconnecting to another", {
      server: this.connection.client.getServer(),
    });
    // Rejects only for a closed connection, which needs no server.
    void this.connection.client.reconnect().catch(() => undefined);
  }
}
