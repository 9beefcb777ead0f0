/**
 * The life of a serving command (`dev`, `gateway`, `host`, `mail`): admin port, start, a word to the person
 * who started it, then until a signal, and an orderly stop. `prepare` comes before; `Joins.start`
 * is the process itself.
 */
import * as Effect from "effect/Effect";
import * as Exit from "effect/Exit";
import * as Scope from "effect/Scope";
import { serveAdmin, type Readiness } from "../../admin/AdminServer.ts";
import { PrometheusMetrics } from "../../admin/PrometheusMetrics.ts";
import type { Begun, Joins, ProcessSettings, RunningProcess } from "../../wiring/Joins.ts";
import { CliError, failed } from "../terminal/CliError.ts";
import { stopSignals } from "../terminal/stopSignals.ts";

export interface ServeOptions {
  /** Another wish to stop than signals. */
  readonly stopped?: Promise<string> | undefined;
  readonly settings: Omit<ProcessSettings, "metrics">;
  readonly adminHostname: string;
  readonly adminPort: number;
}

/** What is known once it serves. */
export interface Served {
  readonly running: RunningProcess;
  readonly adminPort: number;
}

/**
 * Resolves when it has stopped after a signal. `onServing` runs once it serves; what it returns runs
 * first when it stops. Rejects with what made it fail.
 */
export async function serve(
  joins: Pick<Joins, "time"> & Begun,
  { settings, adminHostname, adminPort, ...options }: ServeOptions,
  onServing: (served: Served) => (() => void) | void,
): Promise<void> {
  const signals = stopSignals(joins.time);
  const stopped = Promise.race([signals.stopped, options.stopped ?? signals.stopped]);
  const metrics = new PrometheusMetrics();
  const scope = Effect.runSync(Scope.make());
  let readiness = (): Readiness => ({ ready: false, reason: "starting" });
  try {
    const admin = await listenAdmin(scope, {
      hostname: adminHostname,
      port: adminPort,
      readiness: () => readiness(),
      metrics: () => metrics.render(),
    }).catch(async (error: unknown) => {
      await joins.abandon();
      throw error;
    });
    const starting = joins.start({ ...settings, metrics });
    const first = await Promise.race([starting, stopped]);
    if (typeof first === "string") {
      // Asked to stop while starting: let it come up, so that it goes down in order.
      await starting.then((running) => running.stop()).catch(() => undefined);
      return;
    }
    readiness = () => first.readiness();
    const cleanUp = onServing({ running: first, adminPort: admin.port });
    try {
      await Promise.race([stopped, first.failed]);
    } finally {
      readiness = () => ({ ready: false, reason: "stopping" });
      cleanUp?.();
      await first.stop();
    }
  } finally {
    await Effect.runPromise(Scope.close(scope, Exit.void));
    signals.release();
  }
}

/** Rejects with `CliError`. */
export function listenAdmin(
  scope: Scope.Scope,
  options: Parameters<typeof serveAdmin>[0],
): Promise<{ readonly port: number }> {
  return Effect.runPromise(
    serveAdmin(options).pipe(
      Scope.provide(scope),
      Effect.catch((error) => Effect.fail<CliError>(failed(error.message))),
    ),
  );
}
