/**
 * The open exchanges of one HTTP server, and how they end when it stops. Both HTTP adapters use it.
 *
 * 1. The number of open exchanges is exact: each is counted once by `admit` or `started`, and once
 *    by `finished`. `drain` waits for it to reach zero.
 * 2. A stopping server still answers requests on open connections: their callers cannot know yet
 *    that it stops, and a request would be lost with its connection. Each answer is the last of its
 *    connection. Once no request has arrived for the length of a window, further ones are refused.
 */
import { textResponse } from "../../core/http/responseHead.ts";

/**
 * Length of the window if no other server takes the next request: a caller that keeps connections
 * busy uses each more often than this.
 */
const WINDOW_MS_DEFAULT = 500;
/** Bounds the wait for a caller that ignores `connection: close`. */
const WINDOW_MS_MAX = 5_000;
const POLL_MS = 10; // short against any window
/**
 * How long requests in flight may take after the window: more than the longest default deadline of
 * a webhook route (9.5 s).
 */
const DRAIN_MS = 10_000;

/** The answer to a request that is refused because the server stops. */
export const STOPPING = textResponse(503, "Server is stopping");

export class OpenExchanges {
  /** True if connections end with their current answer. */
  stopping = false;
  private refusing = false;
  private open = 0;
  private readonly polls: number;
  private quietPolls = 0;
  private drained: (() => void) | undefined;

  constructor(windowMs = WINDOW_MS_DEFAULT) {
    this.polls = windowMs / POLL_MS;
  }

  /** Counts a request that has arrived. Returns false if it is to be refused. */
  admit(): boolean {
    this.open += 1;
    this.quietPolls = 0;
    return !this.refusing;
  }

  /** Counts an exchange that is not a plain request. */
  started(): void {
    this.open += 1;
  }

  finished(): void {
    this.open -= 1;
    if (this.open === 0) this.drained?.();
  }

  /**
   * Resolves once the window has passed without a request, or no connection is open, and then every
   * exchange has ended; after `WINDOW_MS_MAX` and `DRAIN_MS` at the latest.
   */
  async drain(connections: () => number): Promise<void> {
    this.stopping = true;
    await this.untilQuiet(connections);
    this.refusing = true;
    if (this.open === 0) return;
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, DRAIN_MS);
      this.drained = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }

  private async untilQuiet(connections: () => number): Promise<void> {
    const startMs = performance.now();
    // Counts polls, not time: a process without a processor has not read the requests of that time.
    const isOver = (): boolean =>
      connections() === 0 ||
      this.quietPolls++ >= this.polls ||
      performance.now() - startMs > WINDOW_MS_MAX;
    this.quietPolls = 0;
    while (!isOver()) await new Promise((resolve) => setTimeout(resolve, POLL_MS));
  }
}
