/**
 * When a worker that ended is started again: one pure rule. `Workers` feeds it each end, and does what it says.
 *
 * 1. A first start that fails is not tried again, as with one process: the command line, the module or the broker is
 *    to blame, and would be the next time.
 * 2. Later ends are crashes: the worker comes back, later each time, until it has served for a while.
 * 3. One that can't come back any more ends all: whoever runs the whole (systemd, Kubernetes) is then asked to look. Not
 *    while others serve, for a broker that is away fails starts too, and they would be ended for nothing.
 */

/** A crash after hours costs next to nothing; one that comes back at once is given time. */
const AGAIN_MS_MIN = 200;
/** As patient as orchestrators are. */
const AGAIN_MS_MAX = 30_000;
/** Who has served this long has not come back only to crash of the same. */
const STEADY_MS = 60_000;
/** Starts in a row that never served: with the waits between them some 6 s, and the time of the starts. */
const FAILED_STARTS_MAX = 5;

/** Of one worker, over all of its processes. */
export interface WorkerHistory {
  readonly hasServed: boolean;
  /** Processes in a row that ended before they were steady. */
  readonly crashes: number;
  /** Processes in a row that never served. */
  readonly failedStarts: number;
}

export const NO_HISTORY: WorkerHistory = { hasServed: false, crashes: 0, failedStarts: 0 };

export type AfterEnd =
  | { readonly _tag: "Again"; readonly afterMs: number; readonly history: WorkerHistory }
  | { readonly _tag: "GiveUp"; readonly failedStarts: number };

/** `servedMs`: how long the process that ended had served; undefined: it never did. */
export function afterEnd(
  before: WorkerHistory,
  servedMs: number | undefined,
  { othersServe }: { readonly othersServe: boolean },
): AfterEnd {
  const failedStarts = servedMs === undefined ? before.failedStarts + 1 : 0;
  const hasServed = before.hasServed || servedMs !== undefined;
  const isOver = failedStarts >= FAILED_STARTS_MAX && !othersServe;
  if (!hasServed || isOver) return { _tag: "GiveUp", failedStarts };
  const crashes = servedMs !== undefined && servedMs >= STEADY_MS ? 1 : before.crashes + 1;
  const afterMs = Math.min(AGAIN_MS_MAX, AGAIN_MS_MIN * 2 ** (crashes - 1));
  return { _tag: "Again", afterMs, history: { hasServed, crashes, failedStarts } };
}
