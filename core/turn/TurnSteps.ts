/**
 * The steps of one turn in memory: what `core/step/AgentSteps` knows of them while the turn runs,
 * and what `Committer` has to store.
 */
import type { DoneStep } from "../journal/encodeCommit.ts";

export class TurnSteps {
  /** Steps of each name that were begun in this run. */
  private readonly begun = new Map<string, number>();
  /** Steps whose functions run. */
  running = 0;
  /** A step has ended in this run: a host that ends from now on does not use up an attempt. */
  private gotOn = false;
  private unstored: DoneStep[] = [];

  /** The key of the next step of that name: `1:charge`, `2:charge`. */
  nextKey(name: string): string {
    const nth = (this.begun.get(name) ?? 0) + 1;
    this.begun.set(name, nth);
    return `${nth}:${name}`;
  }

  add(step: DoneStep): void {
    this.gotOn = true;
    this.unstored.push(step);
  }

  /** For the next event (`TurnRecord.steps`). */
  take(): ReadonlyArray<DoneStep> | undefined {
    if (!this.gotOn) return undefined;
    const taken = this.unstored;
    this.unstored = [];
    return taken;
  }
}
