/**
 * A semaphore with two priorities: urgent work runs first, then the rest in order of arrival. A
 * host that takes over a deep inbox wakes every agent in it. All at once they would fill its
 * memory, and the broker's answers would arrive too late for all of them. Work that needs no broker
 * still pauses between slices of time (`TimeSlices`).
 */
import type { TimeSlices } from "../../../core/time/TimeSlices.ts";

export class PrioritySemaphore {
  private used = 0;
  private readonly urgent: Array<() => void> = [];
  private readonly patient: Array<() => void> = [];
  /** Index of the first waiter of `patient`: shifting tens of thousands one by one is quadratic. */
  private next = 0;

  /** At most `permits` pieces of work run at once. */
  constructor(
    private readonly permits: number,
    private readonly slices: Pick<TimeSlices, "turn">,
  ) {}

  /** Runs `f` once a permit is free. Settles as `f` does. */
  async run<A>(urgent: boolean, f: () => Promise<A>): Promise<A> {
    if (this.used < this.permits) this.used++;
    else await new Promise<void>((resolve) => (urgent ? this.urgent : this.patient).push(resolve));
    try {
      const turn = this.slices.turn();
      if (turn !== undefined) await turn;
      return await f();
    } finally {
      const waiter = this.urgent.shift() ?? this.takePatient();
      // The permit passes to the waiter directly, so that no new caller takes it first.
      if (waiter === undefined) this.used--;
      else waiter();
    }
  }

  private takePatient(): (() => void) | undefined {
    const waiter = this.patient[this.next];
    if (waiter === undefined) return undefined;
    this.next++;
    // Moves at most one waiter for each that was taken.
    if (this.next * 2 >= this.patient.length) {
      this.patient.splice(0, this.next);
      this.next = 0;
    }
    return waiter;
  }
}
