/**
 * The settings of a serving process: what the command line and the environment decide before it
 * starts. `services/cli/options` reads them, `joinProcess` follows them.
 */
import type { HistoryOption } from "../../core/retention/HistoryLimits.ts";
import type { LeasesShape } from "../../core/lease/Leases.ts";
import type { LogShape } from "../../core/telemetry/Log.ts";
import type { MetricsShape } from "../../core/telemetry/Metrics.ts";
import type { RequestLines } from "../../core/telemetry/RequestLog.ts";
import type { RecordedSteps } from "../../core/step/RecordedSteps.ts";
import type { CeilingOptions } from "../../core/turn/Ceilings.ts";
import type { WriteLimitOptions } from "../../core/turn/WriteLimits.ts";
import type { Isolation, OnAsk } from "../../core/input/Isolation.ts";
import type { LoadedModule } from "../module/LoadedModule.ts";
import type { WatchdogOptions } from "../watchdog/startWatchdog.ts";
import type { BrokerLogin } from "./ReadPorts.ts";

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
  readonly socketsPerAddress: number | undefined;
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

/** `lazy`: objects that are built as far as they are read (`core/lazyFetch`). */
export type FetchClasses = "lazy" | "platform";

export interface ProcessSettings {
  readonly role: Role;
  readonly module: LoadedModule;
  /** Secrets and settings for verifiers and agents. */
  readonly env: Readonly<Record<string, unknown>>;
  /** Undefined in `dev`: the process starts a server itself, with its data in `dataFolder`. */
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
  /** The gateway's URL for callers, if a proxy is in front: `https://hooks.example.com`. */
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
  /**
   * Bytes of disk that the local images of `processes` hosts may take together. Past its share, a
   * host removes those that were used longest ago. Undefined: no limit.
   */
  readonly images?: { readonly bytesMax: number | undefined; readonly processes: number };
  /** For a host: what ends it when a turn holds its thread. Undefined: nothing does. */
  readonly watchdog?: ProcessWatchdog;
  /** For `retention` and `dev`: the archive of trimmed events, as a URL, or `NO_ARCHIVE`. */
  readonly archive?: string;
  /** For a host: seconds that a turn may take unless its class says; 0: no limit. Default 900. */
  readonly turnSeconds?: number | undefined;
  /** For `retention` and `dev`: the history kept of classes without the option. Default: all. */
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

type ProcessWatchdog = Omit<WatchdogOptions, "rssBytesMax" | "onStall">;
