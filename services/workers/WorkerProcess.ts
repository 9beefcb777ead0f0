/**
 * A worker as its parent sees it: the contract between `Workers` and `forkWorker`, and the messages
 * between the two processes. A worker sends one message: where it serves. The parent requests a
 * stop by closing the channel. A parent that was killed has therefore requested it too.
 */

/** Where a worker serves. */
export interface Serving {
  /** The worker's own private port, e.g. `http://127.0.0.1:4711`. */
  readonly admin: string;
}

/**
 * As Node reports it: one of the two is set. Both are null where the process could not be started.
 */
export interface WorkerEnd {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
}

export interface WorkerProcess {
  readonly pid: number | undefined;
  /** Resolves once the worker serves. Never resolves if the worker ends before that. */
  readonly serving: Promise<Serving>;
  readonly ended: Promise<WorkerEnd>;
  /** Asks the worker to stop in order. A second call does nothing. */
  readonly stop: () => void;
  /** Sends SIGKILL. */
  readonly kill: () => void;
}

/** Returns undefined for other messages: a module's code can send anything. */
export function readServing(message: unknown): Serving | undefined {
  const { serves } = (message ?? {}) as { readonly serves?: Partial<Serving> };
  return typeof serves?.admin === "string" ? { admin: serves.admin } : undefined;
}

export const describeEnd = ({ code, signal }: WorkerEnd): string =>
  signal !== null ? signal : code === null ? "it could not be started" : `exit code ${code}`;
