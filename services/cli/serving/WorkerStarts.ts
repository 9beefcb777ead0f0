/**
 * Starts the workers of a control process (`serveWorkers`), and the processes of isolated agents.
 * Each receives how to begin, the broker of `dev`, and the recordings of webhooks so far.
 */
import type { Joins, OpenBroker } from "../../wiring/Joins.ts";
import type { Ending } from "../../watchdog/reports.ts";
import type { Begin } from "../../workers/messages.ts";
import { RECORDINGS_MAX, type Recording } from "../../workers/Recordings.ts";
import { serveIsolation } from "../../workers/serveIsolation.ts";
import { SilentEnds } from "../../workers/SilentEnds.ts";
import type { ServedLeases } from "../../workers/serveLeases.ts";
import type { WorkerEnd, WorkerProcess } from "../../workers/WorkerProcess.ts";
import type { ServingOptions } from "./serveRole.ts";
import { workerArguments } from "./workerArguments.ts";

export interface WorkersOptions extends ServingOptions {
  readonly role: "gateway" | "host" | "dev";
  /** The control process's command line, of which the command lines of workers are made. */
  readonly args: ReadonlyArray<string>;
  /** The URL that opens the console, which `dev` prints. */
  readonly console?: string | undefined;
}

interface StartParts {
  readonly joins: Pick<Joins, "time" | "startWorker">;
  readonly options: WorkersOptions;
  /** Undefined where the workers run no agents. */
  readonly leases: ServedLeases | undefined;
  /** Set in `dev` alone. */
  readonly broker: Promise<OpenBroker> | undefined;
  /** Set where all workers serve on one port. */
  readonly port: number | undefined;
}

export class WorkerStarts {
  /** The control process stops: leases are granted no more. */
  stopping = false;
  /** The control process's own. */
  adminPort = 0;
  /** Undefined where the workers run no agents. */
  readonly isolation: ReturnType<typeof serveIsolation> | undefined;
  /** The port that a worker of `dev` serves on. Its successor uses the same. */
  private port: number | undefined;
  /** Why a worker has ended, as reported by its watchdog or found by `silent`. */
  private readonly endings = new WeakMap<WorkerProcess, Ending>();
  private readonly silent: SilentEnds;
  private readonly recordings: Recording[] = [];
  private readonly processes = new Set<WorkerProcess>();
  /** By worker: the host id of its last process, if the end of that process is explained. */
  private readonly explained = new Map<number, string | undefined>();

  constructor(private readonly parts: StartParts) {
    this.port = parts.port;
    const { joins, options } = parts;
    this.silent = new SilentEnds(joins.time);
    if (options.role !== "gateway")
      this.isolation = serveIsolation(
        {
          time: joins.time,
          log: options.log,
          start: (owner) =>
            this.begin(joins.startWorker(), owner, NOTHING_ISOLATED, ["--isolated"]),
        },
        (process) => this.endings.get(process),
      );
  }

  /** `again`: an earlier process of the worker has ended. */
  start(worker: number, again: boolean): WorkerProcess {
    const { joins, options, leases } = this.parts;
    const started = joins.startWorker();
    const reportsTurns = this.isolation !== undefined && this.silent.any;
    if (reportsTurns) this.silent.follow(started);
    // Before the others that wait for the end, which read the reason.
    void started.ended.then((end) => this.noteSilentEnd(started, end));
    started.onReport((report) => {
      if (!("ending" in report)) return;
      this.endings.set(started, report.ending);
      // A turn that may not be the cause explains nothing.
      if (report.ending.turn !== undefined && report.ending.exactly)
        this.explained.set(worker, host);
    });
    let host: string | undefined;
    void started.serving.then((serving) => {
      ({ host } = serving);
      if (options.role === "dev") this.port = serving.port;
    });
    leases?.serve(worker, started, () => !this.stopping);
    const more = {
      again,
      isolated: this.isolation?.serve(worker, started) ?? [],
      endedHost: this.explained.get(worker),
      console: options.console,
    };
    this.begin(started, worker, more, reportsTurns ? ["--report-turns"] : []);
    this.explained.delete(worker);
    return started;
  }

  private noteSilentEnd(process: WorkerProcess, end: WorkerEnd): void {
    if (this.stopping || end.code === 0 || this.endings.has(process)) return;
    const ending = this.silent.ended(process, end);
    if (ending !== undefined) this.endings.set(process, ending);
  }

  /** Whether it is known why the worker's last process has ended. */
  isExplained(worker: number): boolean {
    return this.explained.has(worker);
  }

  /** Sends a recording to all processes, and to those that are started later. */
  tell(recording: Recording): void {
    if (this.recordings.push(recording) > RECORDINGS_MAX) this.recordings.shift();
    for (const process of this.processes) process.send({ recording });
  }

  private begin(
    started: WorkerProcess,
    worker: number,
    more: Pick<Begin, "again" | "isolated" | "endedHost" | "console">,
    own: ReadonlyArray<string> = [],
  ): WorkerProcess {
    const { broker, options } = this.parts;
    const args = workerArguments(options.args, worker, this.port, own);
    const { adminHostname } = options;
    started.send({ begin: { args, adminHostname, adminPort: this.adminPort, ...more } });
    for (const recording of this.recordings) started.send({ recording });
    this.processes.add(started);
    void started.ended.then(() => this.processes.delete(started));
    // If the broker can't be opened, everything ends: see `failureOf` in `serveWorkers`.
    void broker?.then(
      ({ url, summary }) => started.send({ broker: { url, summary } }),
      () => undefined,
    );
    return started;
  }
}

/** Sent to the process of an isolated agent when it begins. */
const NOTHING_ISOLATED = { again: false, isolated: [] } as const;
