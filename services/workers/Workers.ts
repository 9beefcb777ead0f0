/**
 * The workers of one command, in their parent: starts `count` processes, restarts those that end
 * (`restartRule` decides when), and stops all of them together. `serveWorkers` owns it and provides
 * the clock and the function that starts a process.
 *
 * 1. The first worker starts alone, and the others follow once it serves. An error in the command
 *    line, the module or the broker is thus reported once, and not by each worker.
 * 2. Nothing is started once `stop` was called, and `stop` resolves when no process is left.
 */
import * as Data from "effect/Data";
import type { LogShape } from "../../core/telemetry/Log.ts";
import type { TimeShape } from "../../core/time/Time.ts";
import { afterEnd, againAtOnce, NO_HISTORY, type WorkerHistory } from "./restartRule.ts";
import type { Serving } from "./messages.ts";
import { describeEnd, type WorkerEnd, type WorkerProcess } from "./WorkerProcess.ts";

/**
 * From the request to stop to SIGKILL: above what an orderly stop may take (a gateway's drain
 * window and its answers in flight, or a host's turns: 15 s), below the 30 s that our unit files
 * and manifests grant.
 */
const STOP_MS_MAX = 25_000;

/** Signals by which terminals and supervisors ask a group of processes to stop. */
const STOP_SIGNALS: ReadonlySet<NodeJS.Signals> = new Set(["SIGINT", "SIGTERM", "SIGHUP"]);

/** The signal by which a process was asked to stop, if that is what ended it. */
export const stopSignalOf = ({ signal }: WorkerEnd): NodeJS.Signals | undefined =>
  signal !== null && STOP_SIGNALS.has(signal) ? signal : undefined;

/** A worker did not start, or failed too often. `end`: how its last process ended. */
export class WorkerFailed extends Data.TaggedError("WorkerFailed")<{
  readonly worker: number;
  readonly end: WorkerEnd;
  readonly message: string;
  /** No worker has ever served. */
  readonly atStart: boolean;
}> {}

export type WorkerState =
  | { readonly _tag: "Starting" }
  | { readonly _tag: "Serving"; readonly serving: Serving; readonly sinceMs: number }
  /** The process ended; the worker starts again after a pause. */
  | { readonly _tag: "Pausing"; readonly end: WorkerEnd };

interface WorkersOptions {
  readonly count: number;
  /** `again`: it takes the place of one that has ended. */
  readonly start: (worker: number, again: boolean) => WorkerProcess;
  readonly time: Pick<TimeShape, "after" | "monotonicMs">;
  readonly log: LogShape;
  /** Whether it is known why a worker has ended, and that it will not end again for that reason. */
  readonly isExplained?: (worker: number) => boolean;
  /** Called when a worker is started again. */
  readonly onRestart: (worker: number) => void;
}

interface ManagedWorker {
  state: WorkerState;
  history: WorkerHistory;
  process: WorkerProcess | undefined;
  cancelPause: () => void;
}

export class Workers {
  /** Resolves when every worker has served for the first time. */
  readonly serving: Promise<void>;
  /** Rejects with `WorkerFailed` when the rule gives up on a worker; never resolves. */
  readonly failed: Promise<never>;
  private readonly entries: ReadonlyArray<ManagedWorker>;
  private readonly notYet = new Set<number>();
  private allServe!: () => void;
  private fail!: (error: WorkerFailed) => void;
  private stopping = false;

  constructor(private readonly options: WorkersOptions) {
    this.serving = new Promise((resolve) => (this.allServe = resolve));
    this.failed = new Promise((_, reject) => (this.fail = reject));
    // The awaiting code receives the rejection.
    this.failed.catch(() => undefined);
    this.entries = Array.from({ length: options.count }, () => ({
      state: { _tag: "Starting" },
      history: NO_HISTORY,
      process: undefined,
      cancelPause: () => undefined,
    }));
    for (const worker of this.entries.keys()) this.notYet.add(worker);
  }

  /** Starts the first worker. Call it once. */
  begin(): void {
    this.start(0);
  }

  get states(): ReadonlyArray<WorkerState> {
    return this.entries.map(({ state }) => state);
  }

  /**
   * Asks all workers to stop and kills those that don't stop in time. Resolves with those that did
   * not stop in order, and how they ended: `worker 0 (SIGKILL)`. One that has not served yet has
   * nothing to hand over: it gets a signal, too, because it heeds the request only once its module
   * is loaded.
   */
  async stop(): Promise<ReadonlyArray<string>> {
    this.stopping = true;
    for (const { cancelPause } of this.entries) cancelPause();
    const running = this.entries.flatMap(({ process, state }, worker) =>
      process === undefined ? [] : { worker, process, starting: state._tag === "Starting" },
    );
    for (const { process, starting } of running) {
      process.stop();
      if (starting) process.terminate();
    }
    const cancel = this.options.time.after(STOP_MS_MAX, () => {
      this.options.log.error("workers did not stop in time and are killed", { ms: STOP_MS_MAX });
      this.kill();
    });
    const unclean = await Promise.all(
      running.map(async ({ worker, process, starting }) => {
        const end = await process.ended;
        const inOrder = end.code === 0 || (starting && stopSignalOf(end) !== undefined);
        return inOrder ? [] : [`worker ${worker} (${describeEnd(end)})`];
      }),
    );
    cancel();
    return unclean.flat();
  }

  /** Kills all workers at once. */
  kill(): void {
    for (const { process } of this.entries) process?.kill();
  }

  private start(worker: number): void {
    const { time, log } = this.options;
    const entry = this.entries[worker]!;
    const process = this.options.start(worker, entry.history !== NO_HISTORY);
    entry.process = process;
    entry.state = { _tag: "Starting" };
    log.info("worker started", { worker, pid: process.pid });
    void process.serving.then((serving) => {
      if (entry.process !== process) return;
      entry.state = { _tag: "Serving", serving, sinceMs: time.monotonicMs() };
      this.served(worker);
    });
    void process.ended.then((end) => this.ended(worker, end));
  }

  private served(worker: number): void {
    if (!this.notYet.delete(worker) || this.stopping) return;
    if (this.notYet.size === 0) return this.allServe();
    // Invariant 1.
    if (worker === 0) for (const other of this.entries.keys()) if (other !== 0) this.start(other);
  }

  private ended(worker: number, end: WorkerEnd): void {
    const { time, log, onRestart } = this.options;
    const entry = this.entries[worker]!;
    const servedMs =
      entry.state._tag === "Serving" ? time.monotonicMs() - entry.state.sinceMs : undefined;
    entry.process = undefined;
    entry.state = { _tag: "Pausing", end };
    if (this.stopping) return; // invariant 2
    const othersServe = this.entries.some(({ state }) => state._tag === "Serving");
    const isExplained = servedMs !== undefined && this.options.isExplained?.(worker) === true;
    const next = isExplained
      ? againAtOnce(entry.history)
      : afterEnd(entry.history, servedMs, { othersServe });
    const how = describeEnd(end);
    if (next._tag === "GiveUp") {
      const times = next.failedStarts === 1 ? "" : ` ${next.failedStarts} times in a row`;
      const message = `worker ${worker} ended${times} before it served (${how}). All workers are stopped. Its output is above.`;
      const atStart = this.notYet.size === this.entries.length;
      return this.fail(new WorkerFailed({ worker, end, message, atStart }));
    }
    entry.history = next.history;
    log.error("worker ended", { worker, how, startsAgainInMs: next.afterMs });
    entry.cancelPause = time.after(next.afterMs, () => {
      onRestart(worker);
      this.start(worker);
    });
  }
}
