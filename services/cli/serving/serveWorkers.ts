/**
 * The implementation of `agents host`, `agents dev` and `agents gateway --workers <n>`: the control
 * process of one or more workers. It serves the admin port and answers there for all workers, keeps
 * the leases of workers that run agents (`LeaseKeeper`), and restarts workers that end. It runs no
 * agent code. Each worker runs `serveRole` or `dev`.
 */
import * as Effect from "effect/Effect";
import * as Exit from "effect/Exit";
import * as Scope from "effect/Scope";
import { hostAndPort } from "../../../core/http/hostAndPort.ts";
import type { ListenFailed } from "../../../core/http/HttpServer.ts";
import { serveAdmin } from "../../admin/AdminServer.ts";
import { PrometheusMetrics } from "../../admin/PrometheusMetrics.ts";
import type { Joins, OpenBroker } from "../../wiring/Joins.ts";
import { askHealth, askMetrics, askReadiness } from "../../workers/askWorkers.ts";
import type { IsolationWard } from "../../workers/IsolationWard.ts";
import type { Recording } from "../../workers/Recordings.ts";
import { reservePort } from "../../workers/reservePort.ts";
import { serveLeases } from "../../workers/serveLeases.ts";
import { stopSignalOf, WorkerFailed, Workers } from "../../workers/Workers.ts";
import { CliError, EXIT_FAILED, EXIT_USAGE, exitOnSignal, failed } from "../terminal/CliError.ts";
import { STOPPED_BEFORE_SERVING, stopSignals } from "../terminal/stopSignals.ts";
import { WorkerStarts, type WorkersOptions } from "./WorkerStarts.ts";

interface ServeWorkersOptions extends WorkersOptions {
  readonly count: number;
  /**
   * For `dev`: called once the workers serve. `tell` sends a recording to all of them, and to those
   * that are started later. The returned function is called before they stop.
   */
  readonly beside?:
    | ((broker: OpenBroker, tell: (recording: Recording) => void) => Promise<() => Promise<void>>)
    | undefined;
}

type WorkersJoins = Pick<Joins, "time" | "startWorker" | "openLeases" | "openBroker">;

/**
 * Resolves when all workers have stopped after a signal. Rejects with `ListenFailed`, and with
 * `CliError` when they can't be started or did not stop in order.
 */
export async function serveWorkers(
  joins: WorkersJoins,
  options: ServeWorkersOptions,
): Promise<void> {
  const { role, count, log } = options;
  let kill = (): void => undefined;
  const signals = stopSignals(joins.time, () => {
    kill();
    process.exit(exitOnSignal("SIGINT"));
  });
  const scope = Effect.runSync(Scope.make());
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
    const control = await openControl(joins, options, { broker, leases, scope });
    kill = () => {
      control.workers.kill();
      control.isolated?.kill();
    };
    await serveUntilStopped(control, options, { broker, stopped: signals.stopped });
  } catch (error) {
    throw error instanceof WorkerFailed ? failureOfWorker(error, count) : error;
  } finally {
    await leases?.close();
    await broker?.then((opened) => opened.stop(), skip);
    await Effect.runPromise(Scope.close(scope, Exit.void));
    signals.release();
  }
}

/** The parts of a control process. */
interface Control {
  readonly starts: WorkerStarts;
  readonly workers: Workers;
  readonly isolated: IsolationWard | undefined;
  /** The addresses that it logs. */
  readonly urls: { readonly url?: string; readonly admin: string };
}

/** Opens the ports. No worker is started. */
async function openControl(
  joins: WorkersJoins,
  options: ServeWorkersOptions,
  parts: {
    readonly broker: Promise<OpenBroker> | undefined;
    readonly leases: ReturnType<typeof serveLeases> | undefined;
    readonly scope: Scope.Scope;
  },
): Promise<Control> {
  const { role, count, log, hostname, adminHostname } = options;
  const open = <A>(effect: Effect.Effect<A, ListenFailed, Scope.Scope>): Promise<A> =>
    Effect.runPromise(Scope.provide(effect, parts.scope));
  const port = role === "gateway" ? await open(reservePort(options)) : undefined;
  const metrics = new PrometheusMetrics();
  const restarts = Array.from({ length: count }, (_, worker) =>
    metrics.counter("agents_worker_restarts_total", "Workers restarted after they ended", {
      worker: String(worker),
    }),
  );
  const starts = new WorkerStarts({ joins, options, ...parts, port });
  const isolated = starts.isolation?.ward;
  if (isolated !== undefined)
    metrics.gaugeFrom(
      "agents_isolated",
      "Agents that run in a separate process, because they ended or held a worker",
      () => isolated.agents.length,
    );
  const workers = new Workers({
    count,
    start: (worker, again) => starts.start(worker, again),
    time: joins.time,
    // The user of `dev` does not need the details of a start.
    log: role === "dev" ? { ...log, info: log.debug } : log,
    isExplained: (worker) => starts.isExplained(worker),
    onRestart: (worker) => restarts[worker]!(),
  });
  const admin = await open(
    serveAdmin({
      hostname: adminHostname,
      port: options.adminPort,
      readiness: () =>
        starts.stopping ? { ready: false, reason: "stopping" } : askReadiness(workers.states),
      health: () => askHealth(() => workers.states, joins.time),
      metrics: async () => askMetrics(workers.states, await metrics.render()),
    }),
  );
  starts.adminPort = admin.port;
  const urls = {
    ...(port !== undefined && { url: `http://${hostAndPort(hostname, port)}` }),
    admin: `http://${hostAndPort(adminHostname, admin.port)}`,
  };
  return { starts, workers, isolated, urls };
}

/** Rejects with `WorkerFailed`, and with what `broker` or `beside` rejects with. */
async function serveUntilStopped(
  { starts, workers, isolated, urls }: Control,
  { role, count, log, beside: runBeside }: ServeWorkersOptions,
  given: {
    readonly broker: Promise<OpenBroker> | undefined;
    readonly stopped: Promise<NodeJS.Signals>;
  },
): Promise<void> {
  const title = count === 1 ? role : `${role} with ${count} workers`;
  // `dev` prints its own lines.
  const say: typeof log.info = role === "dev" ? skip : log.info;
  let isServing = false;
  let endBeside = async (): Promise<void> => undefined;
  workers.begin();
  void workers.serving.then(() => {
    isServing = true;
    say(`${title} serves`, urls);
  });
  const beside =
    runBeside &&
    workers.serving.then(async () => {
      endBeside = await runBeside((await given.broker)!, (recording) => starts.tell(recording));
    });
  let unclean: ReadonlyArray<string> = [];
  let stoppedBy: NodeJS.Signals | undefined;
  try {
    const failures = [workers.failed, failureOf(given.broker), failureOf(beside)];
    const stopOrFailure = Promise.race([given.stopped, ...failures]);
    stoppedBy = await stopOrFailure.catch((error: unknown) => stopOfStarting(error));
  } finally {
    starts.stopping = true;
    await endBeside();
    say(`${title} stops`);
    unclean = await workers.stop();
    await isolated?.stop();
  }
  if (unclean.length > 0)
    throw failed(
      `${unclean.length} of ${count} workers did not stop in order: ${unclean.join(", ")}. The log above may say why.`,
    );
  // Supervisors of the others take a stop for a success, whenever it is requested.
  if (role === "dev" && !isServing)
    throw new CliError({ message: STOPPED_BEFORE_SERVING, exitCode: exitOnSignal(stoppedBy) });
  say(`${title} stopped`);
}

function failureOfWorker({ end, atStart, message }: WorkerFailed, count: number): CliError {
  const exitCode = end.code === EXIT_USAGE ? EXIT_USAGE : EXIT_FAILED;
  // The only worker has already reported the error, and nothing else was started. A module's code
  // can end it in other ways, which nobody has reported.
  const isReported = atStart && count === 1 && end.code === exitCode;
  return new CliError({ message: isReported ? "" : message, exitCode });
}

const skip = (): void => undefined;

/**
 * A terminal sends Ctrl-C to the workers, too. The end of one that has not served yet can be seen
 * before the control process's own signal. Throws every other error.
 */
function stopOfStarting(error: unknown): NodeJS.Signals {
  const signal =
    error instanceof WorkerFailed && error.atStart ? stopSignalOf(error.end) : undefined;
  if (signal === undefined) throw error;
  return signal;
}

/** Rejects as the promise does; never resolves. */
const failureOf = (begun: Promise<unknown> | undefined): Promise<never> =>
  new Promise((_, reject) => begun?.catch(reject));
