/**
 * What the command line needs from the rest of the system, as ports: `main.ts` joins them with the
 * adapters, tests with doubles. Nothing here knows NATS, SQLite or sockets.
 */
import type { CallClient } from "../../core/call/CallClient.ts";
import type { ConsoleSource } from "../../core/console/ConsoleSource.ts";
import type { DatabasesShape } from "../../core/database/Databases.ts";
import type { DeadLettersShape } from "../../core/dead/DeadLetters.ts";
import type { InboxShape } from "../../core/inbox/Inbox.ts";
import type { JournalShape } from "../../core/journal/Journal.ts";
import type { RerunEvent } from "../../core/journal/Rerun.ts";
import type { JournalFeedShape } from "../../core/journal/JournalFeed.ts";
import type { LeasesShape } from "../../core/lease/Leases.ts";
import type { LogFields, LogShape } from "../../core/telemetry/Log.ts";
import type { MetricsShape } from "../../core/telemetry/Metrics.ts";
import type { TimersShape } from "../../core/schedule/Timers.ts";
import type { SnapshotsShape } from "../../core/journal/Snapshots.ts";
import type { TimeShape } from "../../core/time/Time.ts";
import type { WriteLimitOptions } from "../../core/turn/WriteLimits.ts";
import type { AgentId, Sequence } from "../../schemas/Address.ts";
import type { BackupEntry, BackupPart } from "../../schemas/BackupFile.ts";
import type { Readiness } from "../admin/AdminServer.ts";
import type { LoadedModule } from "../module/LoadedModule.ts";
import type { WorkerProcess } from "../workers/WorkerProcess.ts";

export const LOG_LEVELS = ["debug", "info", "warn", "error"] as const;

export interface LogOptions {
  /** What is below is dropped. */
  readonly level: (typeof LOG_LEVELS)[number];
  readonly format: "text" | "json";
  /** Shown in each line. */
  readonly fields?: LogFields;
}

/** Who we are to the broker, beside what its URL says; paths are absolute. */
export interface BrokerLogin {
  readonly credentialsFile?: string;
  readonly nkeyFile?: string;
  readonly caFile?: string;
  readonly certFile?: string;
  readonly keyFile?: string;
}

/** A broker and the installation on it. */
export interface Target {
  readonly natsUrl: string;
  readonly login?: BrokerLogin | undefined;
  readonly namespace: string;
}

/**
 * What commands that look at agents, or act on them from outside, need. `databases` are throw-away
 * copies: nothing that is done to one stays.
 */
export interface ReadPorts {
  readonly journal: JournalShape;
  readonly feed: JournalFeedShape;
  readonly deadLetters: DeadLettersShape;
  readonly inbox: Pick<InboxShape, "publish">;
  readonly calls: Pick<CallClient, "call">;
  readonly timers: Pick<TimersShape, "arm">;
  readonly snapshots: SnapshotsShape;
  readonly databases: DatabasesShape;
  readonly leases: Pick<LeasesShape, "list">;
  readonly shards: number;
  readonly namespace: string;
  /** Everything of a kind that the installation holds, of all agents. Rejects with `BrokerUnavailable`. */
  readonly stored: (part: BackupPart) => AsyncIterable<BackupEntry>;
  /** Removes what waits for an agent: inputs and timers. */
  readonly purgeInputs: (id: AgentId) => Promise<Pick<Purged, "inputs" | "timers">>;
  /** Removes what is stored of an agent, of its journal only what is before `keepEventsFrom`; after `endLife`. */
  readonly purge: (id: AgentId, options: { readonly keepEventsFrom: Sequence }) => Promise<Purged>;
  /** Servers that hold copies and are away or behind: what is removed now may stay in their files. */
  readonly awayCopies: () => Promise<ReadonlyArray<string>>;
  /** Has every host remove its local files of an agent; gives those of `hosts` that did in time. */
  readonly tellErased: (
    id: AgentId,
    hosts: ReadonlyArray<string>,
  ) => Promise<ReadonlyArray<string>>;
  readonly close: () => Promise<void>;
}

/** For one message of `journal` or `inbox`: a broker that is slower to store it is away. */
export const STORE_TIMEOUT_MS = 30_000;

/** How many of each were removed. */
export interface Purged {
  readonly events: number;
  readonly inputs: number;
  readonly timers: number;
  readonly snapshots: number;
  readonly deadLetters: number;
  readonly blobs: number;
  /** False: the broker's files still have bytes of inputs that were done, until it rewrites them. */
  readonly doneInputsGone: boolean;
}

export interface ProvisionSettings {
  readonly shards: number | undefined;
  readonly streamGroups?: number | undefined;
  readonly replicas: number | undefined;
  readonly leaseTtlMs: number | undefined;
  /** Where the copies lie: a cluster's name, and tags that each server must have. */
  readonly placementCluster?: string | undefined;
  readonly placementTags?: ReadonlyArray<string> | undefined;
}

/** Not 25, which needs rights: the port that mail servers for testing use. */
export const SMTP_PORT_DEFAULT = 2525;

/** Mail in (`mail`, `dev`) and out (every process that runs a module's code). */
export interface MailSettings {
  /** 0: any free one; undefined: `dev` listens where its module takes mail. */
  readonly port: number | undefined;
  /** `smtp://` or `smtps://`; undefined: nothing can be sent. */
  readonly relayUrl: string | undefined;
  /** PEM; with it STARTTLS is offered. */
  readonly tls: { readonly cert: string; readonly key: string } | undefined;
  /** With it only who knows it may send. */
  readonly auth: { readonly user: string; readonly password: string } | undefined;
  readonly messageBytesMax: number | undefined;
  readonly messagesPerPeerPerMinute: number | undefined;
}

/** What a gateway refuses with 429, connections and sockets that it closes, what it stores first; undefined: the default. */
export interface GatewayLimits {
  readonly connectionsMax: number | undefined;
  readonly perAddress: number | undefined;
  readonly perEntity: number | undefined;
  /** A second of one socket; 0: no limit. */
  readonly framesPerSocket: number | undefined;
  readonly bytesPerSocket: number | undefined;
  readonly trustedProxies: number | undefined;
  readonly storeFirst: boolean | undefined;
}

/** What is known before the module is loaded, and enough to find or start the broker. */
export type BrokerSettings = Pick<ProcessSettings, "natsUrl" | "dataFolder" | "log" | "progress">;

/** Everything that a process is told from outside. */
export interface ProcessSettings {
  readonly role: "dev" | "gateway" | "host" | "mail";
  readonly module: LoadedModule;
  /** Secrets and settings for verifiers and agents. */
  readonly env: Readonly<Record<string, unknown>>;
  /** Undefined in `dev`: a server of its own, as a child process with its data in `dataFolder`. */
  readonly natsUrl: string | undefined;
  readonly natsLogin?: BrokerLogin | undefined;
  readonly namespace: string;
  /** Absolute; exists. */
  readonly dataFolder: string;
  /** Where the gateway listens; a host ignores both. */
  readonly hostname: string;
  readonly port: number;
  /** The gateway is one of several on the port. */
  readonly portShared?: boolean;
  /** `https://hooks.example.com`: how callers see the gateway, where a proxy is in front of it. */
  readonly publicUrl: string | undefined;
  readonly mail: MailSettings;
  readonly requireDurable: boolean;
  /** A gateway's: hosts and origins that it was told (`docs/guides/access.md`). */
  readonly access?: {
    readonly allowedHosts: ReadonlyArray<string> | undefined;
    readonly allowedOrigins: ReadonlyArray<string> | undefined;
  };
  /** A gateway's. */
  readonly limits?: GatewayLimits;
  /** A host's: MCP servers may be on this machine. Always so in `dev`. */
  readonly mcpAllowLoopback?: boolean;
  /** `auto`: where the broker says that it syncs always. */
  readonly groupCommit: "auto" | "on" | "off";
  /** What the agents of so many hosts may take together (undefined: half of what there is): past three quarters of its part, a host lets the longest idle leave sooner. */
  readonly memory?: { readonly bytesMax: number | undefined; readonly processes: number };
  /** A host's: the most that any class may write. */
  readonly writeLimits?: WriteLimitOptions;
  readonly provision: ProvisionSettings;
  readonly log: LogShape;
  readonly metrics: MetricsShape;
  /** One line on what takes longer than a second, e.g. a download. */
  readonly progress: (line: string) => void;
}

export interface RunningProcess {
  /** Port the gateway listens on; undefined for a host. */
  readonly port: number | undefined;
  /** Port for mail; undefined where none is taken. */
  readonly smtpPort?: number | undefined;
  readonly natsUrl: string;
  /** For people, e.g. `2.14.5, own child process, data in .agents/nats`. */
  readonly natsSummary: string;
  readonly readiness: () => Readiness;
  /** Runs new code from the next turn on; sockets stay open. */
  readonly reload: (module: LoadedModule) => Promise<void>;
  /** Graceful: finishes turns, hands over, closes. */
  readonly stop: () => Promise<void>;
  /** Rejects when the process can't go on; never resolves otherwise. */
  readonly failed: Promise<never>;
}

export interface ConsoleSettings {
  readonly hostname: string;
  /** 0: any free one. */
  readonly port: number;
  readonly token: string;
  /** The name that a proxy in front of it is asked for. */
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
  readonly openReader: (target: Target) => Promise<ReadPorts>;
  /** Rejects with `ListenFailed`. */
  readonly serveConsole: (
    source: ConsoleSource,
    settings: ConsoleSettings,
  ) => Promise<ServedConsole>;
  /** Resolves to lines for people: what was created, what was there. */
  readonly provision: (target: Target, settings: ProvisionSettings) => Promise<readonly string[]>;
  /**
   * The first half of a start, before the module is loaded: the broker comes up meanwhile. What `Begun.start` needs
   * is imported here, for once a module was loaded each import passes its hooks, at several times the cost.
   */
  readonly begin: (settings: BrokerSettings) => Promise<Begun>;
  /** How past events are run again on a module's code. */
  readonly rerunOn: (code: {
    readonly module: LoadedModule;
    readonly env: Readonly<Record<string, unknown>>;
  }) => Promise<RerunEvent>;
  /** This program once more, with a channel to it. */
  readonly startWorker: (args: ReadonlyArray<string>) => WorkerProcess;
}

export interface Begun {
  readonly start: (settings: ProcessSettings) => Promise<RunningProcess>;
  /** Instead of `start`: stops what was begun. */
  readonly abandon: () => Promise<void>;
}
