/**
 * Notices that the server behind this process's connection answers it and stores nothing, as one does that is cut off from its
 * cluster, and goes to another: the client alone stays while the server answers its pings. Every process writes a
 * lease at least each third of a TTL, so `NatsLeases` feeds this.
 *
 * Where no server stores anything the process goes round them all, which costs nothing that was not broken: it holds no
 * shard then, and no webhook is taken.
 */
import type { NatsConnectionShape } from "./NatsConnection.ts";

/** Longer than a healthy cluster needs to elect a leader (4 to 9 s on nats-server 2.15.1). */
const STRANDED_MS = 10_000;

export class StallDetector {
  private readonly connection: NatsConnectionShape;
  /** Of the first write that was not answered since one was, by the monotonic clock. */
  private sinceMs: number | undefined;

  constructor(connection: NatsConnectionShape) {
    this.connection = connection;
    connection.onChange(() => (this.sinceMs = undefined));
  }

  /** What became of a write to a stream, or of a question to its leader. */
  heard(answered: boolean): void {
    if (answered || !this.connection.connected()) {
      this.sinceMs = undefined;
      return;
    }
    const nowMs = performance.now();
    this.sinceMs ??= nowMs;
    if (nowMs - this.sinceMs < STRANDED_MS) return;
    this.sinceMs = undefined;
    this.connection.log("warn", "the broker's server stores nothing; trying another", {
      server: this.connection.client.getServer(),
    });
    // Never rejects while the connection is open; a closed one has nothing to go to.
    void this.connection.client.reconnect().catch(() => undefined);
  }
}
