/**
 * The ports through which the command line uses the rest of the system. `main.ts` implements them
 * with the adapters, tests with doubles. Nothing here depends on NATS, SQLite or sockets.
 */

import type { ConsoleSource } from "../../core/console/ConsoleSource.ts";
import type { DatabasesShape } from "../../core/database/Databases.ts";
import type { RerunEvent } from "../../core/history/Rerun.ts";
import type { LogFields, LogShape } from "../../core/telemetry/Log.ts";
import type { TimeShape } from "../../core/time/Time.ts";
import type { Readiness } from "../admin/AdminServer.ts";
import type { LoadedModule } from "../module/LoadedModule.ts";
import type { RanSelf } from "../node/runSelf.ts";
import type { OpenLeases } from "../workers/serveLeases.ts";
import type { WorkerLink } from "../workers/workerLink.ts";
import type { WorkerProcess } from "../workers/WorkerProcess.ts";
import type { ProvisionSettings, BrokerSettings, ProcessSettings } from "./ProcessSettings.ts";
import type { Target, ReadPorts, ReaderOptions } from "./ReadPorts.ts";

export const LOG_LEVELS = ["debug", "info", "warn", "error"] as const;

export interface LogOptions {
  /** Less severe lines are dropped. */
  readonly level: (typeof LOG_LEVELS)[number];
  readonly format: "text" | "json";
  /** Added to each line. */
  readonly fields?: LogFields;
}

export interface OpenBroker {
  readonly url: string;
  /** For people. */
  readonly summary: string;
  /** Stops a server of our own in order. Does nothing for a broker that was named. */
  readonly stop: () => Promise<void>;
}

export interface RunningProcess {
  /** In events, leases and logs. */
  readonly id: string;
  /** The port on which the gateway listens; undefined for a host. */
  readonly port: number | undefined;
  /** The port for mail; undefined where the process takes none. */
  readonly smtpPort?: number | undefined;
  readonly natsUrl: string;
  /** For people, e.g. `2.14.5, own child process, data in .agents/nats`. */
  readonly natsSummary: string;
  readonly readiness: () => Readiness;
  /** Runs new code, with this environment, from the next turn on. Sockets stay open. */
  readonly reload: (module: LoadedModule, env: ProcessSettings["env"]) => Promise<void>;
  /** Stops in order: finishes turns, hands over, closes. */
  readonly stop: () => Promise<void>;
}

export interface ConsoleSettings {
  readonly hostname: string;
  /** 0: any free port. */
  readonly port: number;
  readonly token: string;
  /** The host name that callers use where a proxy is in front of the console. */
  readonly publicHost: string | undefined;
  readonly time: TimeShape;
  readonly log: LogShape;
}

export interface ServedConsole {
  readonly port: number;
  readonly stop: () => Promise<void>;
}

export interface Provisioned {
  /** For people: what exists now. */
  readonly lines: readonly string[];
  /** Streams of an existing installation that were missing. They were created again, empty. */
  readonly lost: readonly string[];
  /** Whether timers, or the triggers of queue items, were among them. */
  readonly lostTriggers: boolean;
}

export interface Joins {
  readonly time: TimeShape;
  readonly log: (options: LogOptions) => LogShape;
  readonly openReader: (target: Target, options?: ReaderOptions) => Promise<ReadPorts>;
  /** Rejects with `ListenFailed`. */
  readonly serveConsole: (
    source: ConsoleSource,
    settings: ConsoleSettings,
  ) => Promise<ServedConsole>;
  readonly provision: (target: Target, settings: ProvisionSettings) => Promise<Provisioned>;
  /**
   * The first half of a start, which runs before the module is loaded, so that the broker starts
   * meanwhile. What `Begun.start` needs is also imported here: after a module was loaded, each
   * import passes its hooks and takes several times as long.
   */
  readonly begin: (settings: BrokerSettings) => Promise<Begun>;
  /**
   * Databases for a command's own use: temporary ones, or with local images in `folder`, of which
   * `residentBytesMax` stay in memory until they are saved.
   */
  readonly openDatabases: (kept?: {
    readonly folder: string;
    readonly residentBytesMax: number;
  }) => Promise<{ readonly databases: DatabasesShape; readonly close: () => void }>;
  /**
   * Runs this program again in a separate process, and collects its output. One that takes longer
   * than `limitMs` is ended; undefined: there is no limit.
   */
  readonly runSelf: (
    args: ReadonlyArray<string>,
    env: Readonly<Record<string, string>>,
    limitMs?: number,
  ) => Promise<RanSelf>;
  /**
   * Resolves to a function that runs inputs on a module's code. `broker`: the URL of the one place
   * that the process may connect to meanwhile.
   */
  readonly rerunOn: (
    code: { readonly module: LoadedModule; readonly env: Readonly<Record<string, unknown>> },
    broker: string,
  ) => Promise<RerunEvent>;
  /** For a control process. Rejects as `begin` does, and when `signal` aborts it. */
  readonly openBroker: (settings: BrokerSettings, signal?: AbortSignal) => Promise<OpenBroker>;
  /** For a control process: the leases of an installation that exists. */
  readonly openLeases: (settings: LeasesSettings) => Promise<OpenLeases>;
  /** Starts this program again as a worker, which waits for what to begin with. */
  readonly startWorker: () => WorkerProcess;
  /** The channel to the control process; undefined in a process that is not a worker. */
  readonly link: WorkerLink | undefined;
}

export interface LeasesSettings {
  readonly target: Target;
  readonly role: "dev" | "host";
  readonly log: LogShape;
}

export interface Begun {
  /** `signal` ends a start that is under way, in order; the promise then rejects. */
  readonly start: (settings: ProcessSettings, signal: AbortSignal) => Promise<RunningProcess>;
  /** Called instead of `start`: stops everything that was begun. */
  readonly abandon: () => Promise<void>;
}
