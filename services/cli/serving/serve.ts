/**
 * Runs a serving command (`dev`, `gateway`, `host`, `mail`) from start to stop: opens the admin
 * port, starts the process (`Begun.start`), reports that it serves, waits for a signal and stops in
 * order. `prepare` comes before it.
 */
import * as Effect from "effect/Effect";
import * as Exit from "effect/Exit";
import * as Scope from "effect/Scope";
import { serveAdmin, type Readiness } from "../../admin/AdminServer.ts";
import { measureProcess } from "../../admin/processMetrics.ts";
import { PrometheusMetrics } from "../../admin/PrometheusMetrics.ts";
import type { Begun, Joins, RunningProcess } from "../../wiring/Joins.ts";
import type { ProcessSettings } from "../../wiring/ProcessSettings.ts";
import { stopSignals } from "../terminal/stopSignals.ts";

interface ServeOptions {
  /** Resolves when something other than a signal requests a stop. */
  readonly stopped?: Promise<string> | undefined;
  readonly settings: Omit<ProcessSettings, "metrics">;
  readonly adminHostname: string;
  readonly adminPort: number;
}

interface Served {
  readonly running: RunningProcess;
  readonly adminPort: number;
}

/**
 * Resolves when the process has stopped after a signal. `onServing` is called once it serves; the
 * function that it returns is called first when the process stops. Rejects with `ListenFailed` if
 * the admin port can't be opened, and with the error that ended the process.
 */
export async function serve(
  joins: Pick<Joins, "time"> & Begun,
  { settings, adminHostname, adminPort, ...options }: ServeOptions,
  onServing: (served: Served) => (() => void) | void,
): Promise<void> {
  const signals = stopSignals(joins.time);
  const stopped = Promise.race([signals.stopped, options.stopped ?? signals.stopped]);
  const metrics = new PrometheusMetrics();
  const endMeasurements = measureProcess(metrics);
  const scope = Effect.runSync(Scope.make());
  let readiness = (): Readiness => ({ ready: false, reason: "starting" });
  try {
    const opening = serveAdmin({
      hostname: adminHostname,
      port: adminPort,
      readiness: () => readiness(),
      metrics: () => metrics.render(),
    });
    const admin = await Effect.runPromise(Scope.provide(opening, scope)).catch(
      async (error: unknown) => {
        await joins.abandon();
        throw error;
      },
    );
    const stopStarting = new AbortController();
    const starting = joins.start({ ...settings, metrics }, stopStarting.signal);
    const first = await Promise.race([starting, stopped]);
    if (typeof first === "string") {
      // A stop was requested during the start.
      stopStarting.abort();
      await starting.then((running) => running.stop()).catch(() => undefined);
      return;
    }
    readiness = () => first.readiness();
    const cleanUp = onServing({ running: first, adminPort: admin.port });
    try {
      await stopped;
    } finally {
      readiness = () => ({ ready: false, reason: "stopping" });
      cleanUp?.();
      await first.stop();
    }
  } finally {
    await Effect.runPromise(Scope.close(scope, Exit.void));
    endMeasurements();
    signals.release();
  }
}
