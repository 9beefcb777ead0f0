/** A worker's process that serves, reports and ends when the test says so. */
import type { WatchdogReport } from "../../services/watchdog/reports.ts";
import type { Serving, ToWorker } from "../../services/workers/messages.ts";
import type { WorkerEnd, WorkerProcess } from "../../services/workers/WorkerProcess.ts";

export interface HandWorkerOptions {
  /** Ends in order when it is stopped; else only when the test says so. */
  readonly endsWhenStopped?: boolean;
}

export class HandWorker implements WorkerProcess {
  readonly pid = 1;
  readonly sent: ToWorker[] = [];
  stopped = false;
  terminated = false;
  killed = false;
  serve!: (serving: Serving) => void;
  end!: (end: WorkerEnd) => void;
  readonly serving = new Promise<Serving>((resolve) => (this.serve = resolve));
  readonly ended = new Promise<WorkerEnd>((resolve) => (this.end = resolve));
  readonly send = (message: ToWorker): void => void this.sent.push(message);
  say!: (message: unknown) => void;
  readonly onMessage = (f: (message: unknown) => void): void => void (this.say = f);
  private readonly listeners: Array<(report: WatchdogReport) => void> = [];
  readonly onReport = (f: (report: WatchdogReport) => void): void => void this.listeners.push(f);
  readonly report = (report: WatchdogReport): void => {
    for (const f of this.listeners) f(report);
  };
  private readonly options: HandWorkerOptions;

  constructor(options: HandWorkerOptions = {}) {
    this.options = options;
  }

  readonly stop = (): void => {
    this.stopped = true;
    if (this.options.endsWhenStopped) this.end({ code: 0, signal: null });
  };
  readonly terminate = (): void => void (this.terminated = true);
  readonly kill = (): void => {
    this.killed = true;
    this.end({ code: null, signal: "SIGKILL" });
  };
}
