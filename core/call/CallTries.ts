/**
 * The earlier tries of one call or message: how many hosts were lost while they had it, and so may have been ended by it. Kept by
 * whoever asks the same again, so that it counts over all tries; `CallClient` feeds it.
 *
 * A try without an answer stays out: its host may be lost long after the caller has stopped waiting for it.
 */
export class CallTries {
  /** Hosts that were lost with it out. */
  lost = 0;
  /** Owners that its shard had lost when it was sent. Undefined: no host has it unanswered. */
  private sentAfter: number | undefined;
  private before: number | undefined;

  /** A host may be running it, or have run it, and has not said so. */
  get isOut(): boolean {
    return this.sentAfter !== undefined;
  }

  /** `losses`: owners that its shard has lost so far. */
  count(losses: number): void {
    if (this.sentAfter === undefined || this.sentAfter === losses) return;
    this.sentAfter = undefined;
    this.lost++;
  }

  /** After `count`. */
  sent(losses: number): void {
    this.before = this.sentAfter;
    this.sentAfter = losses;
  }

  /** This try reached nobody, or a host that did not begin it. */
  notBegun(): void {
    this.sentAfter = this.before;
  }

  /** Its host lives, and has nothing of it any more. */
  answered(): void {
    this.sentAfter = undefined;
  }
}
