/**
 * Turns the parsed options of the serving commands (`dev`, `gateway`, `host`, `mail`) and of
 * `provision` into settings of a process. The options themselves are declared in `options.ts`.
 */
import { join, resolve } from "node:path";
import type { HistoryOption } from "../../../core/retention/HistoryLimits.ts";
import type { RequestLines } from "../../../core/telemetry/RequestLog.ts";
import type { FetchClasses, ProvisionSettings } from "../../wiring/ProcessSettings.ts";
import type { LogOptions } from "../../wiring/Joins.ts";
import type { ServingOptions } from "../serving/serveRole.ts";
import { loginOf, type GivenLogin } from "./brokerLogin.ts";
import { ceilingsOf, type GivenCeilings } from "./ceilingOptions.ts";
import type { CommandContext } from "./CommandContext.ts";
import { CPU_SECONDS, IMAGE_CACHE_MIB } from "./options.ts";
import { NAMESPACE_DEFAULT } from "../../../schemas/Subjects.ts";
import { mailSettings, requireTlsForLogin, type MailOptions } from "./mailSettings.ts";

export const MODULE_HELP = "file that exports the agents (default: server.ts, src/server.ts, …)";

/** The values that commander parses for the options of `provision`. */
export interface GivenProvision {
  readonly shards?: number;
  readonly streamGroups?: number;
  readonly replicas?: number;
  readonly leaseTtl?: number;
  readonly placementCluster?: string;
  readonly placementTag?: ReadonlyArray<string>;
}

/** The values that commander parses for the options of all serving commands together. */
export interface GivenServing extends GivenProvision, GivenLogin, MailOptions, GivenCeilings {
  readonly nats?: string;
  readonly namespace?: string;
  readonly data: string;
  readonly port?: number;
  readonly hostname?: string;
  readonly publicUrl?: string;
  readonly tunnel?: string;
  readonly from?: string;
  readonly allowedHosts?: ReadonlyArray<string>;
  readonly allowedOrigins?: ReadonlyArray<string>;
  readonly adminPort: number;
  readonly adminHostname: string;
  readonly requireDurable?: boolean;
  readonly maxConnections?: number;
  readonly ratePerAddress?: number;
  readonly ratePerEntity?: number;
  readonly socketsPerAddress?: number;
  readonly framesPerSocket?: number;
  readonly bytesPerSocket?: number;
  readonly trustedProxies?: number;
  readonly storeFirst?: boolean;
  readonly mcpAllowLoopback?: boolean;
  readonly workers?: number;
  readonly worker?: number;
  readonly isolated?: boolean;
  readonly reportTurns?: boolean;
  readonly groupCommit: "auto" | "on" | "off";
  readonly memory?: number;
  readonly imageCache?: number;
  readonly cpuSeconds?: number;
  readonly turnSeconds?: number;
  readonly history?: HistoryOption;
  readonly archive?: string;
  readonly stateBytesMax?: number;
  readonly commitBytesMax?: number;
  readonly journalBytesPerMinute?: number;
  readonly fetchClasses: FetchClasses;
  readonly requestLog: RequestLines;
  readonly logLevel: LogOptions["level"];
  readonly logFormat?: LogOptions["format"];
}

export const provisionSettings = (given: GivenProvision): ProvisionSettings => ({
  shards: given.shards,
  streamGroups: given.streamGroups,
  replicas: given.replicas,
  leaseTtlMs: given.leaseTtl,
  placementCluster: given.placementCluster,
  placementTags: given.placementTag,
});

/** Throws `CliError` for options that don't go together. */
export function servingOptions(
  role: ServingOptions["role"],
  module: string | undefined,
  given: GivenServing,
  { joins, terminal }: Pick<CommandContext, "joins" | "terminal">,
): ServingOptions {
  const { worker, isolated = false } = given;
  const fields = { ...(worker !== undefined && { worker }), ...(isolated && { isolated }) };
  const mail = mailSettings(given, terminal);
  // `dev` ignores the login, because in development no certificate protects a password.
  if (role === "mail") requireTlsForLogin(mail);
  const format = given.logFormat ?? (terminal.interactive ? "text" : "json");
  return {
    role,
    module,
    natsUrl: given.nats,
    // An embedded server needs none; with `--from` it is the installation's.
    natsLogin: given.nats === undefined ? undefined : loginOf(given, terminal.cwd),
    namespace: given.namespace ?? NAMESPACE_DEFAULT,
    dataFolder: resolve(terminal.cwd, given.data),
    hostname: given.hostname ?? "127.0.0.1",
    port: given.port ?? 0,
    // The control process passes the tunnel's URL to its worker.
    publicUrl: given.publicUrl ?? (worker === undefined ? undefined : given.tunnel),
    tunnel: worker === undefined ? undefined : given.tunnel,
    sealed: given.from === undefined ? undefined : joins.link?.recordings,
    access: { allowedHosts: given.allowedHosts, allowedOrigins: given.allowedOrigins },
    mail,
    requireDurable: given.requireDurable ?? false,
    limits: {
      connectionsMax: given.maxConnections,
      perAddress: given.ratePerAddress,
      perEntity: given.ratePerEntity,
      socketsPerAddress: given.socketsPerAddress,
      framesPerSocket: given.framesPerSocket,
      bytesPerSocket: given.bytesPerSocket,
      trustedProxies: given.trustedProxies,
      storeFirst: given.storeFirst,
    },
    mcpAllowLoopback: given.mcpAllowLoopback ?? false,
    groupCommit: given.groupCommit,
    fetchClasses: given.fetchClasses,
    requestLines: linesAt(given.logLevel, given.requestLog),
    memory: {
      bytesMax: given.memory === undefined ? undefined : given.memory * 1024 * 1024,
      processes: given.workers ?? 1,
    },
    images: { bytesMax: imageBytesMax(given.imageCache), processes: given.workers ?? 1 },
    ...((role === "dev" || role === "host") && {
      watchdog: {
        cpuSeconds: given.cpuSeconds ?? CPU_SECONDS,
        endings: join(resolve(terminal.cwd, given.data), "endings"),
        reports: worker !== undefined,
        reportsTurns: given.reportTurns === true,
        log: { format, fields },
      },
    }),
    ...(given.archive === undefined ? {} : { archive: given.archive }),
    turnSeconds: given.turnSeconds,
    ceilings: ceilingsOf(given),
    ...(given.history === undefined ? {} : { history: given.history }),
    writeLimits: {
      stateBytesMax: given.stateBytesMax,
      commitBytesMax: given.commitBytesMax,
      journalBytesPerMinute: given.journalBytesPerMinute,
    },
    provision: provisionSettings(given),
    adminHostname: given.adminHostname,
    adminPort: given.adminPort,
    worker,
    isIsolated: isolated,
    // The only worker of `dev` does not share its port.
    portShared: role === "gateway" && worker !== undefined,
    log: joins.log({ level: given.logLevel, format, fields }),
    progress: terminal.err,
  };
}

const imageBytesMax = (mib = IMAGE_CACHE_MIB): number | undefined =>
  mib === 0 ? undefined : mib * 1024 * 1024;

/** `all` has lines of level `info`; a log without those has only failures. */
const linesAt = (level: LogOptions["level"], lines: RequestLines): RequestLines =>
  lines === "all" && (level === "warn" || level === "error") ? "failed" : lines;
