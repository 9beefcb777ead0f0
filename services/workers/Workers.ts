/**
 * The workers of one command as their parent keeps them: starts `count` processes, each again when it ends
 * (`restartRule` says when), and stops them together. `serveWorkers` owns it; how a process is started and what time
 * is come from there.
 *
 * 1. The first goes ahead, the others follow when it serves: what is wrong with the command line, the module or the
 *    broker is told once, and not by each.
 * 2. Nothing is started once `stop` was called, and `stop` resolves when no process is left.
 */
import * as Data from "effect/Data";
import type { LogShape } from "../../core/telemetry/Log.ts";
import type { TimeShape } from "../../core/time/Time.ts";
import { afterEnd, NO_HISTORY, type WorkerHistory } from "./restartRule.ts";
import { describeEnd, type Serving, type WorkerEnd, type WorkerProcess } from "./WorkerProcess.ts";

/**
 * From the wish to stop to SIGKILL: above what an orderly end may take (a gateway's lull and its answers in flight, or
 * a host's turns: 15 s), below the 30 s that our unit files and manifests grant.
 */
const STOP_MS_MAX = 25_000;

/** `message` is for people. */
export class WorkerFailed extends Data.TaggedError("WorkerFailed")<{
  readonly worker: number;
  readonly code: number | null;
  readonly message: string;
}> {}

export type WorkerState =
  | { readonly _tag: "Starting" }
  | { readonly _tag: "Serving"; readonly serving: Serving; readonly sinceMs: number }
  /** It starts again after a pause. */
  | { readonly _tag: "Pausing"; readonly end: WorkerEnd };

export interface WorkersOptions {
  readonly count: number;
  readonly start: (worker: number) => WorkerProcess;
  readonly time: Pick<TimeShape, "after" | "monotonicMs">;
  readonly log: LogShape;
  /** A worker is started again. */
  readonly onRestart: (worker: number) => void;
}

interface Seat {
  state: WorkerState;
  history: WorkerHistory;
  process: WorkerProcess | undefined;
  cancelPause: () => void;
}

export class Workers {
  /** Resolves when each has served for the first time. */
  readonly serving: Promise<void>;
  /** Rejects with `WorkerFailed` when one can't be had; never resolves. */
  readonly failed: Promise<never>;
  readonly #options: WorkersOptions;
  readonly #seats: ReadonlyArray<Seat>;
  readonly #notYet = new Set<number>();
  #allServe!: () => void;
  #fail!: (error: WorkerFailed) => void;
  #stopping = false;

  constructor(options: WorkersOptions) {
    this.#options = options;
    this.serving = new Promise((resolve) => (this.#allServe = resolve));
    this.failed = new Promise((_, reject) => (this.#fail = reject));
    // Whoever awaits it hears of it.
    this.failed.catch(() => undefined);
    this.#seats = Array.from({ length: options.count }, () => ({
      state: { _tag: "Starting" },
      history: NO_HISTORY,
      process: undefined,
      cancelPause: () => undefined,
    }));
    for (const worker of this.#seats.keys()) this.#notYet.add(worker);
  }

  /** Once. */
  begin(): void {
    this.#start(0);
  }

  /** By number. */
  get states(): ReadonlyArray<WorkerState> {
    return this.#seats.map(({ state }) => state);
  }

  /** Asks all to stop, kills who does not in time, and resolves with how many did not end with code 0. */
  async stop(): Promise<number> {
    this.#stopping = true;
    for (const { cancelPause } of this.#seats) cancelPause();
    const running = this.#seats.flatMap((seat) => seat.process ?? []);
    for (const process of running) process.stop();
    const cancel = this.#options.time.after(STOP_MS_MAX, () => {
      this.#options.log.error("workers did not stop in time and are killed", { ms: STOP_MS_MAX });
      this.kill();
    });
    const ends = await Promise.all(running.map((process) => process.ended));
    cancel();
    return ends.filter(({ code }) => code !== 0).length;
  }

  /** At once, all. */
  kill(): void {
    for (const { process } of this.#seats) process?.kill();
  }

  #start(worker: number): void {
    const { time, log } = this.#options;
    const seat = this.#seats[worker]!;
    const process = this.#options.start(worker);
    seat.process = process;
    seat.state = { _tag: "Starting" };
    log.info("worker started", { worker, pid: process.pid });
    void process.serving.then((serving) => {
      if (seat.process !== process) return;
      seat.state = { _tag: "Serving", serving, sinceMs: time.monotonicMs() };
      this.#served(worker);
    });
    void process.ended.then((end) => this.#ended(worker, end));
  }

  #served(worker: number): void {
    if (!this.#notYet.delete(worker) || this.#stopping) return;
    if (this.#notYet.size === 0) return this.#allServe();
    // Invariant 1.
    if (worker === 0) for (const other of this.#seats.keys()) if (other !== 0) this.#start(other);
  }

  #ended(worker: number, end: WorkerEnd): void {
    const { time, log, onRestart } = this.#options;
    const seat = this.#seats[worker]!;
    const servedMs =
      seat.state._tag === "Serving" ? time.monotonicMs() - seat.state.sinceMs : undefined;
    seat.process = undefined;
    seat.state = { _tag: "Pausing", end };
    if (this.#stopping) return; // invariant 2
    const othersServe = this.#seats.some(({ state }) => state._tag === "Serving");
    const next = afterEnd(seat.history, servedMs, { othersServe });
    const how = describeEnd(end);
    if (next._tag === "GiveUp") {
      const times = next.failedStarts === 1 ? "" : ` ${next.failedStarts} times in a row`;
      const message = `worker ${worker} ended${times} before it served (${how}): all are stopped. What it said is above.`;
      return this.#fail(new WorkerFailed({ worker, code: end.code, message }));
    }
    seat.history = next.history;
    log.error("worker ended", { worker, how, startsAgainInMs: next.afterMs });
    seat.cancelPause = time.after(next.afterMs, () => {
      onRestart(worker);
      this.#start(worker);
    });
  }
}
