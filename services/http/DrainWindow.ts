/**
 * The time in which a stopping server still answers requests on open connections. Their callers
 * cannot know yet that it stops, and a request would be lost with its connection. The server goes
 * on answering, each answer the last of its connection, until no request has arrived for the length
 * of the window. Both HTTP adapters use it.
 */

/**
 * Length of the window if no other server takes the next request: a caller that keeps connections
 * busy uses each more often than this.
 */
const WINDOW_MS_DEFAULT = 500;
/** Bounds the wait for a caller that ignores `connection: close`. */
const WAIT_MS_MAX = 5_000;
const POLL_MS = 10; // short against any window

export class DrainWindow {
  private readonly polls: number;
  private quietPolls = 0;

  constructor(drainWindowMs = WINDOW_MS_DEFAULT) {
    this.polls = drainWindowMs / POLL_MS;
  }

  /** A request has arrived: the window starts again. */
  onRequest(): void {
    this.quietPolls = 0;
  }

  /**
   * Resolves once the window has passed without a request, or no connection is open; after
   * `WAIT_MS_MAX` at the latest.
   */
  async untilQuiet(connections: () => number): Promise<void> {
    const startMs = performance.now();
    // Counts polls, not time: a process without a processor has not read the requests of that time.
    const isOver = (): boolean =>
      connections() === 0 ||
      this.quietPolls++ >= this.polls ||
      performance.now() - startMs > WAIT_MS_MAX;
    this.quietPolls = 0;
    while (!isOver()) await new Promise((resolve) => setTimeout(resolve, POLL_MS));
  }
}
