/** How many messages a peer sent in this minute: one that floods is told to come later. */
import type { TimeShape } from "../../core/time/Time.ts";

const WINDOW_MS = 60_000; // a minute
/** Peers remembered: past it the count begins anew for all, which only a flood of addresses can bring about. */
const PEERS_MAX = 50_000;

export class PeerRates {
  private readonly time: Pick<TimeShape, "monotonicMs">;
  private readonly max: number;
  private counts = new Map<string, number>();
  private sinceMs: number;

  constructor(time: Pick<TimeShape, "monotonicMs">, max: number) {
    this.time = time;
    this.max = max;
    this.sinceMs = time.monotonicMs();
  }

  /** Counts one more; false when that is too many. */
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
