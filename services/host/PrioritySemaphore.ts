/**
 * Lets so many through at once and makes the others wait: callers first, then in order of arrival. A host that
 * takes over a deep inbox wakes every agent in it; all at once they would fill its memory, and the
 * broker's answers would come too late for all of them. Nor may those that need no broker keep the process busy
 * without a pause (`Slices`).
 */
import type { Slices } from "../../core/time/Slices.ts";

export class PrioritySemaphore {
  private readonly slices: Pick<Slices, "turn">;
  private readonly max: number;
  private inside = 0;
  private readonly urgent: Array<() => void> = [];
  private readonly patient: Array<() => void> = [];
  /** First of `patient` that still waits: shifting tens of thousands one by one would be quadratic. */
  private next = 0;

  constructor(max: number, slices: Pick<Slices, "turn">) {
    this.max = max;
    this.slices = slices;
  }

  /** Runs `f` when it is its turn. */
  async pass<A>(urgent: boolean, f: () => Promise<A>): Promise<A> {
    if (this.inside < this.max) this.inside++;
    else await new Promise<void>((resolve) => (urgent ? this.urgent : this.patient).push(resolve));
    try {
      const turn = this.slices.turn();
      if (turn !== undefined) await turn;
      return await f();
    } finally {
      const waiter = this.urgent.shift() ?? this.takePatient();
      // Its place is handed on, so that nobody slips in between.
      if (waiter === undefined) this.inside--;
      else waiter();
    }
  }

  private takePatient(): (() => void) | undefined {
    const waiter = this.patient[this.next++];
    if (waiter === undefined) {
      this.patient.length = 0;
      this.next = 0;
    }
    return waiter;
  }
}
