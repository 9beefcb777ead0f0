/**
 * Whether a Durable Object works: its events, and the promises of `waitUntil`, run for longer. Its
 * gateways are told, because what an object does for its sockets is lost with its host: the next
 * owner then ends the sockets, so that their clients ask again.
 *
 * 1. Work of less than `LONG_MS` is not told, because most events take less. If the host dies in
 *    that time, sockets stay open.
 */
import type { TimeShape } from "../time/Time.ts";

/** As long as a turn's writes gather: an event that takes longer waits for something outside. */
const LONG_MS = 50;

export class LongEvents {
  #running = 0;
  #isTold = false;
  #cancel: (() => void) | undefined;

  constructor(
    private readonly time: Pick<TimeShape, "after">,
    private readonly tell: (isWorking: boolean) => void,
  ) {}

  /** Settles as `f` does. */
  async run<A>(f: () => A | Promise<A>): Promise<A> {
    this.#begin();
    try {
      return await f();
    } finally {
      this.#end();
    }
  }

  #begin(): void {
    if (this.#running++ > 0) return;
    this.#cancel = this.time.after(LONG_MS, () => {
      this.#isTold = true;
      this.tell(true);
    });
  }

  #end(): void {
    if (--this.#running > 0) return;
    this.#cancel?.();
    if (!this.#isTold) return;
    this.#isTold = false;
    this.tell(false);
  }
}
