/**
 * The body of `agents gateway --workers <n>` and `agents host --workers <n>`: the parent of n
 * processes of an installation. It serves only the private port, where it answers for all workers.
 * Each worker runs `serveRole`.
 */
import * as Effect from "effect/Effect";
import * as Exit from "effect/Exit";
import * as Scope from "effect/Scope";
import { PrometheusMetrics } from "../../admin/PrometheusMetrics.ts";
import type { Joins } from "../../wiring/Joins.ts";
import { askHealth, askMetrics, askReadiness } from "../../workers/askWorkers.ts";
import { reservePort } from "../../workers/reservePort.ts";
import { WorkerFailed, Workers } from "../../workers/Workers.ts";
import { CliError, EXIT_FAILED, EXIT_FORCED, failed } from "../terminal/CliError.ts";
import { stopSignals } from "../terminal/stopSignals.ts";
import { listenAdmin } from "./serve.ts";
import type { ServingOptions } from "./serveRole.ts";

export interface ServeWorkersOptions extends Pick<
  ServingOptions,
  "hostname" | "port" | "adminHostname" | "adminPort" | "log"
> {
  readonly role: "gateway" | "host";
  readonly count: number;
  /** The parent's command line, from which each worker's is built. */
  readonly args: ReadonlyArray<string>;
}

/**
 * Resolves when all workers have stopped after a signal. Rejects with `CliError` when they can't be
 * started or did not stop in order.
 */
export async function serveWorkers(
  joins: Pick<Joins, "time" | "startWorker">,
  options: ServeWorkersOptions,
): Promise<void> {
  const { role, count, log, adminHostname } = options;
  let kill = (): void => undefined;
  const signals = stopSignals(joins.time, () => {
    kill();
    process.exit(EXIT_FORCED);
  });
  const scope = Effect.runSync(Scope.make());
  try {
    const port = role === "gateway" ? await claim(scope, options) : undefined;
    const metrics = new PrometheusMetrics();
    const restarts = Array.from({ length: count }, (_, worker) =>
      metrics.counter("agents_worker_restarts_total", "Workers started again after they ended", {
        worker: String(worker),
      }),
    );
    let stopping = false;
    const workers = new Workers({
      count,
      start: (worker) => joins.startWorker(workerArguments(options.args, worker, port)),
      time: joins.time,
      log,
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
    kill = () => workers.kill();
    workers.begin();
    void workers.serving.then(() =>
      log.info(`${role} with ${count} workers serves`, {
        ...(port !== undefined && { url: `http://${options.hostname}:${port}` }),
        admin: `http://${adminHostname}:${admin.port}`,
      }),
    );
    let unclean: number;
    try {
      await Promise.race([signals.stopped, workers.failed]);
    } finally {
      stopping = true;
      log.info(`${role} with ${count} workers stops`);
      unclean = await workers.stop();
    }
    if (unclean > 0)
      throw failed(`${unclean} of ${count} workers did not stop in order; their log says why.`);
    log.info(`${role} with ${count} workers stopped`);
  } catch (error) {
    if (!(error instanceof WorkerFailed)) throw error;
    const { message, code } = error;
    throw new CliError({ message, exitCode: code === null || code === 0 ? EXIT_FAILED : code });
  } finally {
    await Effect.runPromise(Scope.close(scope, Exit.void));
    signals.release();
  }
}

/**
 * Returns the parent's command line with a worker's own options after it: the last value of a
 * repeated option applies. Arguments after `--` are not options, and stay last.
 */
export function workerArguments(
  args: ReadonlyArray<string>,
  worker: number,
  port: number | undefined,
): ReadonlyArray<string> {
  const end = args.includes("--") ? args.indexOf("--") : args.length;
  const own = ["--worker", String(worker), "--admin-port", "0", "--admin-hostname", "127.0.0.1"];
  const shared = port === undefined ? [] : ["--port", String(port)];
  return [...args.slice(0, end), ...own, ...shared, ...args.slice(end)];
}

function claim(scope: Scope.Scope, { hostname, port }: ServeWorkersOptions): Promise<number> {
  return Effect.runPromise(
    reservePort({ hostname, port }).pipe(
      Scope.provide(scope),
      Effect.catch((error) => Effect.fail<CliError>(failed(error.message))),
    ),
  );
}
