/**
 * The pause in which a server that stops may go: callers on connections that were open can't know yet that it stops,
 * and what they ask would be lost with the connection. So it goes on answering, each answer the connection's last, until
 * nothing has come for a moment. Used by both HTTP adapters.
 */

/** Where nobody else would take the next request: a caller that keeps connections busy uses each more often. */
const LULL_MS_DEFAULT = 500;
/** A caller that takes no notice of `connection: close` doesn't keep the server. */
const WAIT_MS_MAX = 5_000;
const LOOK_MS = 10;

export class DrainWindow {
  readonly #looks: number;
  #quiet = 0;

  constructor(drainWindowMs = LULL_MS_DEFAULT) {
    this.#looks = drainWindowMs / LOOK_MS;
  }

  /** A request has come. */
  requested(): void {
    this.#quiet = 0;
  }

  /** Resolves at once when no connection is open; in `WAIT_MS_MAX` at the latest. */
  async wait(connections: () => number): Promise<void> {
    const startMs = performance.now();
    // In looks, not by the clock: who had no processor for so long has not read what came meanwhile.
    const over = (): boolean =>
      connections() === 0 ||
      this.#quiet++ >= this.#looks ||
      performance.now() - startMs > WAIT_MS_MAX;
    this.#quiet = 0;
    while (!over()) await new Promise((resolve) => setTimeout(resolve, LOOK_MS));
  }
}
