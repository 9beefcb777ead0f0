/**
 * The pause in which a server that stops may go: callers on connections that were open can't know yet that it stops,
 * and what they ask would be lost with the connection. So it goes on answering, each answer the connection's last, until
 * nothing has come for a moment. Used by both HTTP adapters.
 */

/** A caller that keeps connections busy uses each more often than that; it learns by its answer. */
const LULL_MS = 500;
/** A caller that takes no notice of `connection: close` doesn't keep the server. */
const WAIT_MS_MAX = 5_000;
const LOOK_MS = 10;

export class Lull {
  #requestedMs = 0;

  /** A request has come. */
  requested(): void {
    this.#requestedMs = performance.now();
  }

  /** Resolves at once when no connection is open; in `WAIT_MS_MAX` at the latest. */
  async wait(connections: () => number): Promise<void> {
    const startMs = performance.now();
    this.#requestedMs = startMs;
    const over = (): boolean =>
      connections() === 0 ||
      performance.now() - this.#requestedMs > LULL_MS ||
      performance.now() - startMs > WAIT_MS_MAX;
    while (!over()) await new Promise((resolve) => setTimeout(resolve, LOOK_MS));
  }
}
