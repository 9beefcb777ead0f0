/**
 * An answer that its caller has not read whole yet, as `UnsentBytes` counts it. Many callers may
 * rightly read large answers at once, so an answer is cut off only if its caller has read nothing
 * for `answerStallMs`.
 */
import type { UnsentBytes, UnsentPeer } from "../../core/http/UnsentBytes.ts";

/** What an answer needs from its server. */
export interface AnswerOwner {
  readonly unsent: UnsentBytes;
  readonly answerStallMs: number;
}

export class HeldAnswer implements UnsentPeer {
  readonly #owner: AnswerOwner;
  readonly #unsent: () => number;
  readonly #end: () => void;
  #released = false;
  /** What was unsent when that last changed, as far as it was asked for. */
  #seen: number;
  #seenMs = performance.now();

  /** `end` ends the connection, if it has not ended. */
  constructor(owner: AnswerOwner, unsent: () => number, end: () => void) {
    this.#owner = owner;
    this.#unsent = unsent;
    this.#seen = unsent();
    this.#end = end;
    owner.unsent.report(this);
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
    return nowMs - this.#seenMs >= this.#owner.answerStallMs;
  }

  cut(): void {
    // If the process was held for so long, only now does it hear what its callers have read.
    setImmediate(() => {
      if (this.#released) return;
      if (this.stalled) this.#end();
      else this.#owner.unsent.report(this);
    });
  }

  /** The answer is sent, or its connection has ended. */
  release(): void {
    this.#released = true;
    this.#owner.unsent.forget(this);
  }
}
