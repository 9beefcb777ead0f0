/**
 * The time that a batch of writes waits for the turns that made them (`Committer`, rule 3). It
 * fires once for each start. What is gathered then, and whether it is committed, is the
 * `Committer`'s.
 */
import type { TimeShape } from "../time/Time.ts";
import { TimeoutQueue } from "../time/TimeoutQueue.ts";
import { perClock } from "../time/perClock.ts";

/** How long a durable turn's writes wait at most (`docs/internals/a-turn.md`, "The commit"). */
export const GATHER_MS = 50;
/** After a stall of the process, delayed work runs first before a turn counts as late. */
const SETTLE_MS = 1;
/** One queue for all agents of a process, found by the process's clock. */
const gatherTimeouts = perClock((time) => new TimeoutQueue(time));

interface GatherOwner {
  readonly host: { readonly time: TimeShape };
  /** The time is over. */
  gathered(): void;
}

export class GatherTimer {
  private cancel: (() => void) | undefined;

  constructor(private readonly owner: GatherOwner) {}

  get runs(): boolean {
    return this.cancel !== undefined;
  }

  /** Does nothing while it runs. */
  start(): void {
    const { time } = this.owner.host;
    this.cancel ??= gatherTimeouts(time).after(GATHER_MS, () => {
      this.cancel = time.after(SETTLE_MS, () => {
        this.cancel = undefined;
        this.owner.gathered();
      });
    });
  }

  stop(): void {
    this.cancel?.();
    this.cancel = undefined;
  }
}
