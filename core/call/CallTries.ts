/**
 * The earlier tries of one call or message: which hosts were lost while they had it, and so may
 * have been ended by it. Kept by whoever asks the same again, so that it counts over all tries;
 * `CallClient` feeds it.
 *
 * A try without an answer stays open: its host may be lost long after the caller has stopped
 * waiting.
 */
export class CallTries {
  /** Ids of hosts that were lost while they had it, without those that came back. */
  readonly lost = new Set<string>();
  /** How often a host was lost, including those that came back. */
  losses = 0;
  /** Losses of its shard when it was sent. Undefined: no host has it unanswered. */
  private sentAfter: number | undefined;
  private before: number | undefined;

  /** A host may be running it, or may have run it without answering. */
  get isOut(): boolean {
    return this.sentAfter !== undefined;
  }

  /** It may have ended a host. */
  get isSuspect(): boolean {
    return this.losses > 0;
  }

  /** `losses`: owners that its shard has lost so far; `host`: the last of them. */
  count(losses: number, host: string): void {
    if (this.sentAfter === undefined || this.sentAfter === losses) return;
    this.sentAfter = undefined;
    this.losses++;
    this.lost.add(host);
  }

  /** Called after `count`. */
  sent(losses: number): void {
    this.before = this.sentAfter;
    this.sentAfter = losses;
  }

  /** This try reached no host, or one that did not begin it. */
  notBegun(): void {
    this.sentAfter = this.before;
  }

  /**
   * Its host lives, but the process in which the agent ran alone has ended. A return of the host
   * does not undo this loss.
   */
  endedProcess(): void {
    this.losses++;
    this.lost.add(`process ${this.losses}`);
  }

  /** Its host has answered, and no longer has the call. */
  answered(): void {
    this.sentAfter = undefined;
  }
}
