/**
 * The order in which the events of a Durable Object begin: requests, calls, messages, alarms.
 *
 * 1. An event begins when the one before it has ended or waits for something outside: a response, a
 *    timer, another object. Calls of storage answer without such a wait, so what an event does
 *    between two waits is not mixed with another event's: `get`, add, `put` counts every call.
 * 2. While something holds events back (`blockConcurrencyWhile`, an asynchronous transaction), none
 *    begins. Running ones continue.
 * 3. Events begin in the order in which they came.
 *
 * Turns of agents interleave at every await; objects have this order in addition.
 */
import type { TimeShape } from "../time/Time.ts";

export class EventOrder {
  readonly #time: Pick<TimeShape, "after">;
  readonly #waiting: Array<() => void> = [];
  /** A running event has not waited yet, or the next is about to begin. */
  #busy = false;
  #holds = 0;

  constructor(time: Pick<TimeShape, "after">) {
    this.#time = time;
  }

  /** Runs an event when it may begin. Settles as `f` does. */
  async run<A>(f: () => A | Promise<A>): Promise<A> {
    if (this.#busy || this.#holds > 0 || this.#waiting.length > 0)
      await new Promise<void>((begin) => this.#waiting.push(begin));
    this.#busy = true;
    // A timer of 0 ms fires after everything that waits for nothing outside.
    const cancel = this.#time.after(0, () => over());
    let isOver = false;
    const over = (): void => {
      if (isOver) return;
      isOver = true;
      cancel();
      this.#busy = false;
      this.#next();
    };
    try {
      return await f();
    } finally {
      over();
    }
  }

  /** Rule 2, until the returned function is called; once. */
  hold(): () => void {
    this.#holds++;
    return () => {
      this.#holds--;
      this.#next();
    };
  }

  #next(): void {
    if (this.#busy || this.#holds > 0) return;
    const begin = this.#waiting.shift();
    if (begin === undefined) return;
    this.#busy = true;
    begin();
  }
}
