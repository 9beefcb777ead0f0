/**
 * When a worker that ended is started again: one pure rule. `Workers` passes each end to it and
 * carries out the decision.
 *
 * 1. A first start that fails is not retried, as with a single process: the cause is the command
 *    line, the module or the broker, and the next start would fail as well.
 * 2. Later ends are crashes. The worker comes back, after a longer pause each time, until it has
 *    served for a while.
 * 3. A worker that can't come back ends all of them, so that the supervisor (systemd, Kubernetes)
 *    takes over. Not while others serve: a broker that is away makes starts fail too, and the
 *    others would be stopped for nothing.
 */

/**
 * After a crash that follows hours of service the pause is short. A worker that crashes again at
 * once waits longer.
 */
const AGAIN_MS_MIN = 200;
/** As long as orchestrators wait at most. */
const AGAIN_MS_MAX = 30_000;
/** A worker that has served this long did not come back only to crash for the same reason. */
const STEADY_MS = 60_000;
/** Starts in a row that never served: some 6 s with the pauses, plus the time of the starts. */
const FAILED_STARTS_MAX = 5;

/** The history of one worker, over all of its processes. */
export interface WorkerHistory {
  readonly hasServed: boolean;
  /** Processes in a row that ended before they were steady. */
  readonly crashes: number;
  /** Processes in a row that never served. */
  readonly failedStarts: number;
}

export const NO_HISTORY: WorkerHistory = { hasServed: false, crashes: 0, failedStarts: 0 };

type AfterEnd =
  | { readonly _tag: "Again"; readonly afterMs: number; readonly history: WorkerHistory }
  | { readonly _tag: "GiveUp"; readonly failedStarts: number };

/** After an end that is explained: what caused it runs elsewhere from now on. */
export const againAtOnce = (before: WorkerHistory): AfterEnd => ({
  _tag: "Again",
  afterMs: 0,
  history: { ...before, hasServed: true, failedStarts: 0 },
});

/** `servedMs` is how long the process that ended had served; undefined if it never did. */
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
