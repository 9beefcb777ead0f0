/**
 * A worker as its parent sees it: the contract between `Workers` and `forkWorker`, and what the two processes say to
 * each other. A worker says one thing, where it serves. The parent says one thing: it closes the channel, which is the
 * wish to stop. So a parent that was killed has said it too.
 */

/** Where a worker serves. */
export interface Serving {
  /** `http://127.0.0.1:4711`: its own private port. */
  readonly admin: string;
}

/** As Node gives it: one of the two is set, both are null where the process could not be started. */
export interface WorkerEnd {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
}

export interface WorkerProcess {
  readonly pid: number | undefined;
  /** Resolves once it serves; never, if it ends before. */
  readonly serving: Promise<Serving>;
  readonly ended: Promise<WorkerEnd>;
  /** Asks it to stop in order; again: nothing. */
  readonly stop: () => void;
  /** SIGKILL. */
  readonly kill: () => void;
}

/** Undefined: no message of ours; a module's code can send what it likes. */
export function readServing(message: unknown): Serving | undefined {
  const { serves } = (message ?? {}) as { readonly serves?: Partial<Serving> };
  return typeof serves?.admin === "string" ? { admin: serves.admin } : undefined;
}

export const describeEnd = ({ code, signal }: WorkerEnd): string =>
  signal !== null ? signal : code === null ? "it could not be started" : `exit code ${code}`;
