/**
 * A worker as its control process sees it: the contract between `Workers`, `serveWorkers` and
 * `forkWorker`. The two talk over a channel (`messages`). A channel that closes is a control
 * process that has ended in any way, and requests a stop, too. What the watchdog of a worker
 * reports arrives by a separate pipe, since the worker's main thread may be blocked.
 */
import type { Serving, ToWorker } from "./messages.ts";
import type { WatchdogReport } from "../watchdog/reports.ts";

/** As Node reports it, one of the two. Both are null where the process did not start. */
export interface WorkerEnd {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
}

export interface WorkerProcess {
  readonly pid: number | undefined;
  /** Resolves once the worker serves. Never resolves if the worker ends before that. */
  readonly serving: Promise<Serving>;
  /** Resolves when the process has ended and everything that it reported was received. */
  readonly ended: Promise<WorkerEnd>;
  /** Does nothing when the process has ended. */
  readonly send: (message: ToWorker) => void;
  /** Receives what the worker sends beside `serves`. A module's code can send anything. */
  readonly onMessage: (f: (message: unknown) => void) => void;
  readonly onReport: (f: (report: WatchdogReport) => void) => void;
  /** Asks the worker to stop in order. A second call does nothing. */
  readonly stop: () => void;
  /** Sends SIGTERM, which ends a process that still loads its module. */
  readonly terminate: () => void;
  /** Sends SIGKILL. */
  readonly kill: () => void;
}

/** The exit code of Node where a module's top level awaits what nothing is left to end. */
const UNSETTLED_AWAIT = 13;

export function describeEnd({ code, signal }: WorkerEnd): string {
  if (signal !== null) return signal;
  if (code === null) return "it could not be started";
  const why = code === UNSETTLED_AWAIT ? ", as of a top-level await that never ends" : "";
  return `exit code ${code}${why}`;
}
