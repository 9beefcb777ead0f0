/**
 * An answer that its caller has not read whole yet, as `UnsentBytes` counts it. Many callers may
 * rightly read large answers at once, so an answer is cut off only if its caller has read nothing
 * for `STALL_MS`.
 */
import type { UnsentBytes, UnsentPeer } from "../../core/http/UnsentBytes.ts";

/** A caller that reads takes some of its answer within a fraction of it. */
const STALL_MS = 2_000;

export class HeldAnswer implements UnsentPeer {
  readonly #total: UnsentBytes;
  readonly #unsent: () => number;
  readonly #end: () => void;
  #released = false;
  /** What was unsent when that last changed, as far as it was asked for. */
  #seen: number;
  #seenMs = performance.now();

  /** `end` ends the connection, if it has not ended. */
  constructor(total: UnsentBytes, unsent: () => number, end: () => void) {
    this.#total = total;
    this.#unsent = unsent;
    this.#seen = unsent();
    this.#end = end;
    total.report(this);
  }

  get unsentBytes(): number {
    return this.#unsent();
  }

  get stalled(): boolean {
    const nowMs = performance.now();
    const unsent = this.#unsent();
    if (unsent !== this.#seen) {
      this.#seen = unsent;
      this.#seenMs = nowMs;
    }
    return nowMs - this.#seenMs >= STALL_MS;
  }

  cut(): void {
    // If the process was held for `STALL_MS`, only now does it hear what its callers have read.
    setImmediate(() => {
      if (this.#released) return;
      if (this.stalled) this.#end();
      else this.#total.report(this);
    });
  }

  /** The answer is sent, or its connection has ended. */
  release(): void {
    this.#released = true;
    this.#total.forget(this);
  }
}
