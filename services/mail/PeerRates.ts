/**
 * Counts the messages of each peer in the current minute. A peer over the limit receives a
 * temporary error.
 */
import type { TimeShape } from "../../core/time/Time.ts";

const WINDOW_MS = 60_000; // a minute
/** Past this, counting starts again for all peers. Only a flood of addresses gets there. */
const PEERS_MAX = 50_000;

export class PeerRates {
  private counts = new Map<string, number>();
  private sinceMs: number;

  constructor(
    private readonly time: Pick<TimeShape, "monotonicMs">,
    private readonly max: number,
  ) {
    this.sinceMs = time.monotonicMs();
  }

  /** Counts a message. Returns false if the peer is over its limit. */
  take(peer: string): boolean {
    const nowMs = this.time.monotonicMs();
    if (nowMs - this.sinceMs >= WINDOW_MS || this.counts.size >= PEERS_MAX) {
      this.counts = new Map();
      this.sinceMs = nowMs;
    }
    const count = (this.counts.get(peer) ?? 0) + 1;
    this.counts.set(peer, count);
    return count <= this.max;
  }
}
