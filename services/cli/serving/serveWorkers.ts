/**
 * The implementation of `agents host`, `agents dev` and `agents gateway --workers <n>`: the control
 * process of one or more workers. It serves the admin port and answers there for all workers, keeps
 * the leases of workers that run agents (`LeaseKeeper`), and restarts workers that end. It runs no
 * agent code. Each worker runs `serveRole` or `dev`.
 */
import * as Effect from "effect/Effect";
import * as Exit from "effect/Exit";
import * as Scope from "effect/Scope";
import { PrometheusMetrics } from "../../admin/PrometheusMetrics.ts";
import type { Joins, OpenBroker } from "../../wiring/Joins.ts";
import { askHealth, askMetrics, askReadiness } from "../../workers/askWorkers.ts";
import type { Ending } from "../../watchdog/reports.ts";
import type { IsolationWard } from "../../workers/IsolationWard.ts";
import type { Begin } from "../../workers/messages.ts";
import { RECORDINGS_MAX, type Recording } from "../../workers/Recordings.ts";
import { reservePort } from "../../workers/reservePort.ts";
import { serveIsolation } from "../../workers/serveIsolation.ts";
import { serveLeases } from "../../workers/serveLeases.ts";
import type { WorkerProcess } from "../../workers/WorkerProcess.ts";
import { WorkerFailed, Workers } from "../../workers/Workers.ts";
import { CliError, EXIT_FAILED, exitOnSignal, failed } from "../terminal/CliError.ts";
import { stopSignals } from "../terminal/stopSignals.ts";
import { listenAdmin } from "./serve.ts";
import type { ServingOptions } from "./serveRole.ts";

interface ServeWorkersOptions extends ServingOptions {
  readonly role: "gateway" | "host" | "dev";
  readonly count: number;
  /**
   * The command line of the control process. The command lines of the workers are built from it.
   */
  readonly args: ReadonlyArray<string>;
  /**
   * For `dev`: called once the workers serve. `tell` sends a recording to all of them, and to those
   * that are started later. The returned function is called before they stop.
   */
  readonly beside?:
    | ((broker: OpenBroker, tell: (recording: Recording) => void) => Promise<() => Promise<void>>)
    | undefined;
  /** The URL that opens the console, which `dev` prints. */
  readonly console?: string | undefined;
}

/**
 * Resolves when all workers have stopped after a signal. Rejects with `CliError` when they can't be
 * started or did not stop in order.
 */
export async function serveWorkers(
  joins: Pick<Joins, "time" | "startWorker" | "openLeases" | "openBroker">,
  options: ServeWorkersOptions,
): Promise<void> {
  const { role, count, log, adminHostname } = options;
  const title = count === 1 ? role : `${role} with ${count} workers`;
  let kill = (): void => undefined;
  const signals = stopSignals(joins.time, () => {
    kill();
    process.exit(exitOnSignal("SIGINT"));
  });
  const scope = Effect.runSync(Scope.make());
  let isolated: IsolationWard | undefined;
  // Only for `dev` does the control process run a broker.
  const opening = new AbortController();
  void signals.stopped.then(() => opening.abort());
  const broker = role === "dev" ? joins.openBroker(options, opening.signal) : undefined;
  broker?.catch(() => undefined);
  const leases = role === "gateway" ? undefined : serveLeases({ ...joins, log }, openKeeper);
  async function openKeeper() {
    const natsUrl = (await broker)?.url ?? options.natsUrl!;
    const target = { natsUrl, login: options.natsLogin, namespace: options.namespace };
    return joins.openLeases({ target, role: role === "dev" ? "dev" : "host", log });
  }
  try {
    const claimed = role === "gateway" ? await claim(scope, options) : undefined;
    const metrics = new PrometheusMetrics();
    const restarts = Array.from({ length: count }, (_, worker) =>
      metrics.counter("agents_worker_restarts_total", "Workers restarted after they ended", {
        worker: String(worker),
      }),
    );
    let stopping = false;
    let adminPort = 0;
    /** The port that a worker of `dev` serves on. Its successor uses the same. */
    let port = claimed;
    /** Why a worker has ended, as reported by its watchdog. */
    const endings = new WeakMap<WorkerProcess, Ending>();
    const recordings: Recording[] = [];
    const processes = new Set<WorkerProcess>();
    const tell = (recording: Recording): void => {
      if (recordings.push(recording) > RECORDINGS_MAX) recordings.shift();
      for (const process of processes) process.send({ recording });
    };
    /** By worker: the host id of its last process, if the end of that process is explained. */
    const explained = new Map<number, string | undefined>();
    const begin = (
      started: WorkerProcess,
      worker: number,
      more: Pick<Begin, "again" | "isolated" | "endedHost" | "console">,
      own: ReadonlyArray<string> = [],
    ): WorkerProcess => {
      const args = workerArguments(options.args, worker, port, own);
      started.send({ begin: { args, adminHostname, adminPort, ...more } });
      for (const recording of recordings) started.send({ recording });
      processes.add(started);
      void started.ended.then(() => processes.delete(started));
      // If the broker can't be opened, everything ends: see `failureOf(broker)`.
      void broker?.then(({ url, summary }) => started.send({ broker: { url, summary } }), skip);
      return started;
    };
    const isolation =
      role === "gateway"
        ? undefined
        : serveIsolation(
            {
              time: joins.time,
              log,
              start: (owner) => begin(joins.startWorker(), owner, NOTHING_ISOLATED, ["--isolated"]),
            },
            (process) => endings.get(process),
          );
    isolated = isolation?.ward;
    if (isolated !== undefined)
      metrics.gaugeFrom(
        "agents_isolated",
        "Agents that run in a separate process, because they ended a worker",
        () => isolated!.agents.length,
      );
    const start = (worker: number, again: boolean): WorkerProcess => {
      const started = joins.startWorker();
      started.onReport((report) => {
        if (!("ending" in report)) return;
        endings.set(started, report.ending);
        // A turn that may not be the cause explains nothing.
        if (report.ending.turn !== undefined && report.ending.exactly) explained.set(worker, host);
      });
      let host: string | undefined;
      void started.serving.then((serving) => ({ host } = serving));
      leases?.serve(worker, started, () => !stopping);
      const alone = isolation?.serve(worker, started) ?? [];
      begin(started, worker, {
        again,
        isolated: alone,
        endedHost: explained.get(worker),
        console: options.console,
      });
      explained.delete(worker);
      if (role === "dev") void started.serving.then((serving) => (port = serving.port));
      return started;
    };
    const workers = new Workers({
      count,
      start,
      time: joins.time,
      // The user of `dev` does not need the details of a start.
      log: role === "dev" ? { ...log, info: log.debug } : log,
      isExplained: (worker) => explained.has(worker),
      onRestart: (worker) => restarts[worker]!(),
    });
    const admin = await listenAdmin(scope, {
      hostname: adminHostname,
      port: options.adminPort,
      readiness: () =>
        stopping ? { ready: false, reason: "stopping" } : askReadiness(workers.states),
      health: () => askHealth(() => workers.states, joins.time),
      metrics: async () => askMetrics(workers.states, await metrics.render()),
    });
    adminPort = admin.port;
    kill = () => {
      workers.kill();
      isolated?.kill();
    };
    workers.begin();
    // `dev` prints its own greeting.
    if (role !== "dev")
      void workers.serving.then(() =>
        log.info(`${title} serves`, {
          ...(claimed !== undefined && { url: `http://${options.hostname}:${claimed}` }),
          admin: `http://${adminHostname}:${adminPort}`,
        }),
      );
    let unclean = 0;
    let endBeside = async (): Promise<void> => undefined;
    const beside = options.beside && workers.serving.then(beginBeside);
    async function beginBeside(): Promise<void> {
      endBeside = await options.beside!((await broker)!, tell);
    }
    try {
      await Promise.race([signals.stopped, workers.failed, failureOf(broker), failureOf(beside)]);
    } finally {
      stopping = true;
      await endBeside();
      if (role !== "dev") log.info(`${title} stops`);
      unclean = await workers.stop();
      await isolated?.stop();
    }
    if (unclean > 0)
      throw failed(`${unclean} of ${count} workers did not stop cleanly. Their log says why.`);
    if (role !== "dev") log.info(`${title} stopped`);
  } catch (error) {
    if (!(error instanceof WorkerFailed)) throw error;
    const { code, atStart } = error;
    // The only worker has already reported the error, and nothing else was started.
    const message = atStart && count === 1 ? "" : error.message;
    throw new CliError({ message, exitCode: code === null || code === 0 ? EXIT_FAILED : code });
  } finally {
    await leases?.close();
    await broker?.then((opened) => opened.stop(), skip);
    await Effect.runPromise(Scope.close(scope, Exit.void));
    signals.release();
  }
}

const skip = (): void => undefined;

/** Sent to the process of an isolated agent when it begins. */
const NOTHING_ISOLATED = { again: false, isolated: [] } as const;

/** Rejects as the promise does; never resolves. */
const failureOf = (begun: Promise<unknown> | undefined): Promise<never> =>
  new Promise((_, reject) => begun?.catch(reject));

/**
 * Returns the control process's command line with the worker's options added at its end, because
 * the last value of a repeated option applies. Arguments after `--` are not options, and stay last.
 */
export function workerArguments(
  args: ReadonlyArray<string>,
  worker: number,
  port: number | undefined,
  more: ReadonlyArray<string> = [],
): ReadonlyArray<string> {
  const own = ["--worker", String(worker), "--admin-port", "0", "--admin-hostname", "127.0.0.1"];
  const shared = port === undefined ? [] : ["--port", String(port)];
  return withOptions(args, [...own, ...shared, ...more]);
}

/** Returns the command line with more options at its end, before any `--`. */
export function withOptions(
  args: ReadonlyArray<string>,
  more: ReadonlyArray<string>,
): ReadonlyArray<string> {
  const end = args.includes("--") ? args.indexOf("--") : args.length;
  return [...args.slice(0, end), ...more, ...args.slice(end)];
}

function claim(scope: Scope.Scope, { hostname, port }: ServeWorkersOptions): Promise<number> {
  return Effect.runPromise(
    reservePort({ hostname, port }).pipe(
      Scope.provide(scope),
      Effect.catch((error) => Effect.fail<CliError>(failed(error.message))),
    ),
  );
}
