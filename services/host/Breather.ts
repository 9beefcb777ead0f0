/**
 * Keeps long work on many agents (hibernation, hand-over) from holding the process up: asked between
 * two pieces, it lets everything else run whenever a slice of time is used up. A host that is busy
 * for a lease's length without a pause loses its leases.
 *
 * One a host, so that work on several shards at once shares the slices.
 */
import type { TimeShape } from "../../core/time/Time.ts";

/** Below what anyone notices, and long enough that the pauses cost nothing. */
const SLICE_MS = 10;

export class Breather {
  private readonly time: TimeShape;
  private sliceEndMs = 0;
  private pause: Promise<void> | undefined;

  constructor(time: TimeShape) {
    this.time = time;
  }

  /** Resolves at once while there is time left in this slice, else after what waits had its turn. */
  async breathe(): Promise<void> {
    // Several may wait for one pause; the first to go on may use up the next slice alone.
    while (this.pause !== undefined) await this.pause;
    const nowMs = this.time.monotonicMs();
    if (nowMs < this.sliceEndMs) return;
    this.pause = new Promise((resolve) =>
      this.time.after(0, () => {
        this.pause = undefined;
        this.sliceEndMs = this.time.monotonicMs() + SLICE_MS;
        resolve();
      }),
    );
    await this.pause;
  }
}
