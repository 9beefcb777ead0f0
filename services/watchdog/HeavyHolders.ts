/**
 * The agents whose short holds of the main thread add up. The watchdog can't look into every hold,
 * as a look pauses the code; it looks into those of an agent that seems to hold the thread for a
 * good part of the time. "Seems": without a look, a hold counts for the turn that entered last.
 */

/** As that of `judgeHolds`. */
const WINDOW_MS = 60_000;
/** A third of what isolates an agent there, so that it is looked into long before. */
const HEAVY_MS = 10_000;

interface Holder {
  readonly class: string;
  readonly name: string;
}

interface SeenHold {
  readonly holder: Holder;
  readonly atMs: number;
  readonly ms: number;
}

export class HeavyHolders {
  /** Of the last minute, so a few hundred at most: none is shorter than 200 ms. */
  private holds: ReadonlyArray<SeenHold> = [];

  note(holder: Holder, ms: number, nowMs: number): void {
    const recent = this.holds.filter(({ atMs }) => nowMs - atMs <= WINDOW_MS);
    this.holds = [...recent, { holder, atMs: nowMs, ms }];
  }

  isHeavy(agent: Holder, nowMs: number): boolean {
    const own = this.holds.filter(
      ({ holder, atMs }) =>
        holder.class === agent.class && holder.name === agent.name && nowMs - atMs <= WINDOW_MS,
    );
    return own.reduce((sum, { ms }) => sum + ms, 0) >= HEAVY_MS;
  }
}
