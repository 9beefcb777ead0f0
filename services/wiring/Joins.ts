/**
 * The ports through which the command line uses the rest of the system. `main.ts` implements them
 * with the adapters, tests with doubles. Nothing here depends on NATS, SQLite or sockets.
 */
import type { CallClient } from "../../core/call/CallClient.ts";
import type { ConsoleSource } from "../../core/console/ConsoleSource.ts";
import type { DatabasesShape } from "../../core/database/Databases.ts";
import type { DeadLettersShape } from "../../core/dead/DeadLetters.ts";
import type { DeliveryLogShape } from "../../core/delivery/DeliveryLog.ts";
import type { InboxShape } from "../../core/inbox/Inbox.ts";
import type { JournalShape } from "../../core/journal/Journal.ts";
import type { RerunEvent } from "../../core/history/Rerun.ts";
import type { ArchiveShape } from "../../core/retention/Archive.ts";
import type { HistoryOption } from "../../core/retention/HistoryLimits.ts";
import type { ChangeSources } from "../../core/changes/changes.ts";
import type { JournalFeedShape } from "../../core/journal/JournalFeed.ts";
import type { LeasesShape } from "../../core/lease/Leases.ts";
import type { QuarantinesShape } from "../../core/quarantine/Quarantines.ts";
import type { LogFields, LogShape } from "../../core/telemetry/Log.ts";
import type { MetricsShape } from "../../core/telemetry/Metrics.ts";
import type { RequestLines } from "../../core/telemetry/RequestLog.ts";
import type { TimersShape } from "../../core/schedule/Timers.ts";
import type { SnapshotsShape } from "../../core/journal/Snapshots.ts";
import type { RecordedSteps } from "../../core/step/RecordedSteps.ts";
import type { TimeShape } from "../../core/time/Time.ts";
import type { CeilingOptions } from "../../core/turn/Ceilings.ts";
import type { WriteLimitOptions } from "../../core/turn/WriteLimits.ts";
import type { AgentId, Sequence } from "../../schemas/Address.ts";
import type { BackupEntry, BackupPart } from "../../schemas/BackupFile.ts";
import type { Readiness } from "../admin/AdminServer.ts";
import type { Isolation, OnAsk } from "../../core/input/Isolation.ts";
import type { LoadedModule } from "../module/LoadedModule.ts";
import type { RanSelf } from "../node/runSelf.ts";
import type { WatchdogOptions } from "../watchdog/startWatchdog.ts";
import type { OpenLeases } from "../workers/serveLeases.ts";
import type { WorkerLink } from "../workers/workerLink.ts";
import type { WorkerProcess } from "../workers/WorkerProcess.ts";

export const LOG_LEVELS = ["debug", "info", "warn", "error"] as const;

export interface LogOptions {
  /** Less severe lines are dropped. */
  readonly level: (typeof LOG_LEVELS)[number];
  readonly format: "text" | "json";
  /** Added to each line. */
  readonly fields?: LogFields;
}

/** The login to the broker, beside what its URL contains. Paths are absolute. */
export interface BrokerLogin {
  readonly credentialsFile?: string;
  readonly nkeyFile?: string;
  readonly caFile?: string;
  readonly certFile?: string;
  readonly keyFile?: string;
}

/** A broker and an installation on it. */
export interface Target {
  readonly natsUrl: string;
  readonly login?: BrokerLogin | undefined;
  readonly namespace: string;
  /** URL of the archive, whose events are read as the journal's. */
  readonly archive?: string | undefined;
}

/**
 * What the commands need that read agents or act on them from outside. `databases` are temporary
 * copies: changes to them are not stored.
 */
export interface ReadPorts {
  readonly journal: JournalShape;
  readonly feed: JournalFeedShape;
  readonly deadLetters: DeadLettersShape;
  readonly deliveries: DeliveryLogShape;
  readonly inbox: Pick<InboxShape, "publish">;
  readonly calls: Pick<CallClient, "call">;
  readonly timers: Pick<TimersShape, "arm">;
  readonly snapshots: SnapshotsShape;
  readonly databases: DatabasesShape;
  readonly leases: Pick<LeasesShape, "list">;
  readonly quarantines: QuarantinesShape;
  readonly shards: number;
  readonly namespace: string;
  /**
   * Everything of one kind that the installation stores, for all agents. Rejects with
   * `BrokerUnavailable`.
   */
  readonly stored: (part: BackupPart) => AsyncIterable<BackupEntry>;
  /** The journals' streams, in stored order. */
  readonly changes: Pick<ChangeSources, "streams" | "between" | "groupOf">;
  /** Removes what waits for an agent: inputs and timers. */
  readonly purgeInputs: (id: AgentId) => Promise<Pick<Purged, "inputs" | "timers">>;
  /**
   * Removes everything stored of an agent. Of its journal only events before `keepEventsFrom` are
   * removed. Called after `endLife`.
   */
  readonly purge: (id: AgentId, options: { readonly keepEventsFrom: Sequence }) => Promise<Purged>;
  /** Absent without an archive. */
  readonly archive?: ArchiveShape;
  /**
   * Servers that hold copies and are unreachable or behind. Data removed now may stay in their
   * files.
   */
  readonly awayCopies: () => Promise<ReadonlyArray<string>>;
  /**
   * Has every host remove its local files of an agent. Resolves to those of `hosts` that did so in
   * time.
   */
  readonly tellErased: (
    id: AgentId,
    hosts: ReadonlyArray<string>,
  ) => Promise<ReadonlyArray<string>>;
  readonly close: () => Promise<void>;
}

export interface ReaderOptions {
  /** False: databases are rebuilt and not queried, and SQLite is not loaded. Default true. */
  readonly sql?: boolean;
  /** Whose login the target has. Default `cli`. */
  readonly role?: "cli" | "host";
}

/**
 * The time limit for storing one message of `journal` or `inbox`. A broker that takes longer counts
 * as unreachable.
 */
export const STORE_TIMEOUT_MS = 30_000;

/** How many of each were removed. */
export interface Purged {
  readonly events: number;
  readonly inputs: number;
  readonly timers: number;
  readonly snapshots: number;
  readonly deadLetters: number;
  readonly blobs: number;
  /**
   * False: the broker's files still contain bytes of inputs that were done, until it rewrites them.
   */
  readonly doneInputsGone: boolean;
}

export interface ProvisionSettings {
  readonly shards: number | undefined;
  readonly streamGroups?: number | undefined;
  readonly replicas: number | undefined;
  readonly leaseTtlMs: number | undefined;
  /** Where the copies are placed: a cluster's name, and tags that each server must have. */
  readonly placementCluster?: string | undefined;
  readonly placementTags?: ReadonlyArray<string> | undefined;
}

/** Not 25, which needs privileges: the port that mail servers for testing use. */
export const SMTP_PORT_DEFAULT = 2525;

/** Incoming mail (`mail`, `dev`) and outgoing mail (every process that runs a module's code). */
export interface MailSettings {
  /** 0: any free port. Undefined: `dev` listens where its module takes mail. */
  readonly port: number | undefined;
  /** `smtp://` or `smtps://`. Undefined: no mail can be sent. */
  readonly relayUrl: string | undefined;
  /** PEM. Where it is set, STARTTLS is offered. */
  readonly tls: { readonly cert: string; readonly key: string } | undefined;
  /** Where it is set, only callers with this login may send. */
  readonly auth: { readonly user: string; readonly password: string } | undefined;
  readonly messageBytesMax: number | undefined;
  readonly messagesPerPeerPerMinute: number | undefined;
}

/**
 * A gateway's limits: what it answers with 429, which connections and sockets it closes, and
 * whether it stores first. Undefined: the default.
 */
export interface GatewayLimits {
  readonly connectionsMax: number | undefined;
  readonly perAddress: number | undefined;
  readonly perEntity: number | undefined;
  /** Per second of one socket; 0: no limit. */
  readonly framesPerSocket: number | undefined;
  readonly bytesPerSocket: number | undefined;
  readonly trustedProxies: number | undefined;
  readonly storeFirst: boolean | undefined;
}

/** The settings that are known before the module is loaded: enough to find or start the broker. */
export type BrokerSettings = Pick<
  ProcessSettings,
  "natsUrl" | "dataFolder" | "log" | "progress" | "sealed"
>;

/** The role of a process. */
export type Role = "dev" | "gateway" | "host" | "mail" | "retention";

export interface OpenBroker {
  readonly url: string;
  /** For people. */
  readonly summary: string;
  /** Stops a server of our own in order. Does nothing for a broker that was named. */
  readonly stop: () => Promise<void>;
}

/** `lazy`: objects that are built as far as they are read (`core/lazyFetch`). */
export type FetchClasses = "lazy" | "platform";

/** All settings of a process. */
export interface ProcessSettings {
  readonly role: Role;
  readonly module: LoadedModule;
  /** Secrets and settings for verifiers and agents. */
  readonly env: Readonly<Record<string, unknown>>;
  /**
   * Undefined in `dev`: the process starts a server of its own as a child process, with its data in
   * `dataFolder`.
   */
  readonly natsUrl: string | undefined;
  readonly natsLogin?: BrokerLogin | undefined;
  readonly namespace: string;
  /** Absolute; the folder exists. */
  readonly dataFolder: string;
  /** Where the gateway listens. A host ignores both. */
  readonly hostname: string;
  readonly port: number;
  /** The gateway shares the port with others. */
  readonly portShared?: boolean;
  /**
   * The gateway's URL as callers see it where a proxy is in front of it, e.g.
   * `https://hooks.example.com`.
   */
  readonly publicUrl: string | undefined;
  readonly mail: MailSettings;
  readonly requireDurable: boolean;
  /** For a gateway: the configured hosts and origins (`docs/guides/access.md`). */
  readonly access?: {
    readonly allowedHosts: ReadonlyArray<string> | undefined;
    readonly allowedOrigins: ReadonlyArray<string> | undefined;
  };
  /** For a gateway. */
  readonly limits?: GatewayLimits;
  /** For a host: MCP servers may be on this machine. Always true in `dev`. */
  readonly mcpAllowLoopback?: boolean;
  /** The `Request` and `Response` of the module's code. Default `lazy`. */
  readonly fetchClasses?: FetchClasses;
  /** Which requests, sockets and jobs have a line in the log. Default `failed`. */
  readonly requestLines?: RequestLines;
  /** `auto`: on where the broker reports that it syncs always. */
  readonly groupCommit: "auto" | "on" | "off";
  /**
   * The memory that the agents of `processes` hosts may use together. Undefined: half of the
   * machine's. Past three quarters of its share, a host hibernates the longest idle agents sooner.
   */
  readonly memory?: { readonly bytesMax: number | undefined; readonly processes: number };
  /** For a host: what ends it when a turn holds its thread. Undefined: nothing does. */
  readonly watchdog?: ProcessWatchdog;
  /**
   * For `retention` and `dev`: the URL of the archive that events go to before they are trimmed, or
   * `NO_ARCHIVE`.
   */
  readonly archive?: string;
  /**
   * For a host: seconds that a turn may take where its class does not say; 0: no limit. Default
   * 900.
   */
  readonly turnSeconds?: number | undefined;
  /**
   * For `retention` and `dev`: the history that classes without an option of their own keep.
   * Default: all.
   */
  readonly history?: HistoryOption;
  /** For a worker: leases that its control process keeps. Default: the process's own. */
  readonly leases?: ((own: LeasesShape) => LeasesShape) | undefined;
  /** For a worker: passes on the work of isolated agents. */
  readonly isolation?: Isolation | undefined;
  /**
   * Agents are copies of another installation's: nothing that they send leaves the process, and
   * their steps have these results.
   */
  readonly sealed?: RecordedSteps | undefined;
  /** The process runs one isolated agent, and is not a host. */
  readonly isolated?: OnAsk | undefined;
  /** For a host: upper limits for how many things any class may have. */
  readonly ceilings?: CeilingOptions;
  /** For a host: upper limits for what any class may write. */
  readonly writeLimits?: WriteLimitOptions;
  readonly provision: ProvisionSettings;
  readonly log: LogShape;
  readonly metrics: MetricsShape;
  /** Receives one line about each step that takes longer than a second, e.g. a download. */
  readonly progress: (line: string) => void;
}

export type ProcessWatchdog = Omit<WatchdogOptions, "rssBytesMax" | "onStall">;

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
  /** Runs new code from the next turn on. Sockets stay open. */
  readonly reload: (module: LoadedModule) => Promise<void>;
  /** Stops in order: finishes turns, hands over, closes. */
  readonly stop: () => Promise<void>;
  /** Rejects when the process can't continue; never resolves. */
  readonly failed: Promise<never>;
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

export interface Joins {
  readonly time: TimeShape;
  readonly log: (options: LogOptions) => LogShape;
  readonly openReader: (target: Target, options?: ReaderOptions) => Promise<ReadPorts>;
  /** Rejects with `ListenFailed`. */
  readonly serveConsole: (
    source: ConsoleSource,
    settings: ConsoleSettings,
  ) => Promise<ServedConsole>;
  /** Resolves to lines for people: what was created and what existed. */
  readonly provision: (target: Target, settings: ProvisionSettings) => Promise<readonly string[]>;
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
  }) => Promise<{
    readonly databases: DatabasesShape;
    readonly close: () => void;
  }>;
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
    code: {
      readonly module: LoadedModule;
      readonly env: Readonly<Record<string, unknown>>;
    },
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
  readonly start: (settings: ProcessSettings) => Promise<RunningProcess>;
  /** Called instead of `start`: stops everything that was begun. */
  readonly abandon: () => Promise<void>;
}
