/**
 * Joins the trimming of journals with its adapters for `joinProcess`: in `agents retention`, and in
 * `agents dev`.
 */
import * as Effect from "effect/Effect";
import { Journal } from "../../core/journal/Journal.ts";
import { Snapshots } from "../../core/journal/Snapshots.ts";
import { Leases } from "../../core/lease/Leases.ts";
import type { AgentStaticOptions } from "../../core/agent/AgentStaticOptions.ts";
import { NO_ARCHIVE } from "../../core/retention/archiveUrl.ts";
import { limitsOf } from "../../core/retention/HistoryLimits.ts";
import { retentionMetrics } from "../../core/retention/RetentionMetrics.ts";
import type { AgentClassType } from "../../core/runtime/AgentParts.ts";
import { Log } from "../../core/telemetry/Log.ts";
import { Time } from "../../core/time/Time.ts";
import { Retention, type ClassHistory } from "../retention/Retention.ts";
import { openSqliteDatabases } from "../sqlite/sqliteDatabases.ts";
import { brokerMs } from "../nats/brokerMs.ts";
import { Nats } from "../nats/client/Nats.ts";
import { joinArchive } from "./joinArchive.ts";
import type { ProcessSettings } from "./ProcessSettings.ts";

/** Undefined in every other role. `agents`: the module's classes now. */
export const serveRetention = (
  { role, history, metrics, archive: archiveAt }: ProcessSettings,
  id: string,
  agents: () => ReadonlyMap<string, AgentClassType>,
) =>
  Effect.gen(function* () {
    if (role !== "retention" && role !== "dev") return undefined;
    // Separate databases: those of a host have its agents' local images.
    const { databases } = yield* Effect.acquireRelease(
      Effect.promise(() => openSqliteDatabases({ folder: undefined })),
      ({ close }) => Effect.sync(close),
    );
    const log = yield* Log;
    const time = yield* Time;
    const leases = yield* Leases;
    const nats = yield* Nats;
    const services = {
      id,
      databases,
      journal: yield* Journal,
      snapshots: yield* Snapshots,
      leases,
      time,
      log,
      metrics: retentionMetrics(metrics),
      leavesArchive: archiveAt === NO_ARCHIVE,
      archive:
        archiveAt === undefined || archiveAt === NO_ARCHIVE
          ? undefined
          : joinArchive(archiveAt, { nats, leases, time }),
      brokerMs: () => brokerMs(nats),
      classes: () => classesOf(agents(), history),
    };
    if (role === "retention") tell(services.classes(), agents(), log);
    return yield* Effect.acquireRelease(
      Effect.sync(() => {
        const retention = new Retention(services);
        retention.start();
        return retention;
      }),
      (retention) => Effect.promise(() => retention.stop()),
    );
  });

function classesOf(
  agents: ReadonlyMap<string, AgentClassType>,
  fallback: ProcessSettings["history"],
): ReadonlyArray<ClassHistory> {
  return [...agents].flatMap(([className, agentClass]) => {
    const { options } = agentClass as { readonly options?: AgentStaticOptions };
    const limits = limitsOf(options?.history ?? fallback);
    return limits === undefined ? [] : [{ className, limits }];
  });
}

function tell(
  limited: ReadonlyArray<ClassHistory>,
  agents: ReadonlyMap<string, unknown>,
  log: Log["Service"],
): void {
  const kept = [...agents.keys()].filter((name) => !limited.some((of) => of.className === name));
  log.info("history is kept", {
    ...Object.fromEntries(limited.map(({ className, limits }) => [className, limits])),
    all: kept.join(",") || "of no class",
  });
}
