/**
 * Everything a host stands on, as one record: the ports, the module's classes, and the host's bounds.
 * `main.ts` and `cli/dev.ts` build it from layers; tests from memory adapters.
 */
import * as Effect from "effect/Effect";
import * as Option from "effect/Option";
import { Ambient, type AmbientShape } from "../../core/turn/Ambient.ts";
import type { Observability } from "../../core/telemetry/observability.ts";
import { Blobs, type BlobsShape } from "../../core/journal/Blobs.ts";
import { Bus, type BusShape } from "../../core/bus/Bus.ts";
import type { CallClient } from "../../core/call/CallClient.ts";
import { Databases, type DatabasesShape } from "../../core/database/Databases.ts";
import { DeadLetters, type DeadLettersShape } from "../../core/dead/DeadLetters.ts";
import { Inbox, type InboxShape } from "../../core/inbox/Inbox.ts";
import { Journal, type JournalShape } from "../../core/journal/Journal.ts";
import { Leases, type LeasesShape } from "../../core/lease/Leases.ts";
import { Log, type LogShape } from "../../core/telemetry/Log.ts";
import {
  MailTransport,
  NO_MAIL_TRANSPORT,
  type MailTransportShape,
} from "../../core/mail/MailTransport.ts";
import { NO_OUTGOING, Outgoing, type OutgoingShape } from "../../core/outgoing/Outgoing.ts";
import { McpClients, type McpClientsShape } from "../../core/mcp/McpClients.ts";
import { Snapshots, type SnapshotsShape } from "../../core/journal/Snapshots.ts";
import { Cron, type CronShape } from "../../core/schedule/Cron.ts";
import { Timers, type TimersShape } from "../../core/schedule/Timers.ts";
import { slicesOf } from "../../core/time/Slices.ts";
import { Time, type TimeShape } from "../../core/time/Time.ts";
import type { AgentClassType } from "../../core/runtime/AgentParts.ts";
import { Unbegun } from "../../core/input/Unbegun.ts";
import type { WriteLimitOptions } from "../../core/turn/WriteLimits.ts";
import type { Subjects } from "../../schemas/Subjects.ts";
import type { AgentMetrics } from "../../core/telemetry/AgentMetrics.ts";
import { PrioritySemaphore } from "./PrioritySemaphore.ts";

/** Enough to keep the broker busy: each is a few round trips, and holds a batch of events at most. */
const REBUILDS_MAX = 128;

export interface HostConfig {
  /** Unique for the process's life; in leases, events and logs. */
  readonly hostId: string;
  readonly subjects: Subjects;
  /** As provisioned. */
  readonly shards: number;
  /** How long a stopping host waits for its turns. */
  readonly drainTimeoutMs: number;
  /** How often idle agents are looked for; default a second. */
  readonly sweepMs?: number;
  /** The most that any class gets. */
  readonly writeLimits?: WriteLimitOptions;
}

/** What a module gives a host. A function: `agents dev` replaces the module while the host runs. */
export interface HostModule {
  readonly agents: ReadonlyMap<string, AgentClassType>;
  readonly env: unknown;
}

export interface HostServices {
  /** Of agents whose class sets no other. */
  readonly observability: Observability;
  readonly config: HostConfig;
  readonly module: () => HostModule;
  readonly metrics: Pick<
    AgentMetrics,
    | "turns"
    | "commits"
    | "refusedAppends"
    | "activations"
    | "hibernations"
    | "snapshots"
    | "deadLetters"
    | "quarantines"
    | "duplicates"
    | "entityConflicts"
  >;
  readonly journal: JournalShape;
  readonly inbox: InboxShape;
  readonly leases: LeasesShape;
  readonly snapshots: SnapshotsShape;
  readonly blobs: BlobsShape;
  readonly bus: BusShape;
  readonly databases: DatabasesShape;
  readonly deadLetters: DeadLettersShape;
  readonly timers: TimersShape;
  readonly cron: CronShape;
  readonly outgoing: OutgoingShape;
  /** What agents here call others by: told of owners that are lost. */
  readonly calls?: Pick<CallClient, "leaseChanged" | "serveInputs">;
  /** Absent where a process is joined without one. */
  readonly mcp?: McpClientsShape;
  /** Absent: no relay, nothing is sent. */
  readonly mail?: MailTransportShape;
  /** Snapshots on their way; a host that stops waits for them, for a moment. */
  readonly storing: Set<Promise<void>>;
  /** Attempts that were announced here and have not begun. */
  readonly unbegun: Unbegun;
  /** Agents that are being rebuilt pass it. */
  readonly rebuilds: PrioritySemaphore;
  readonly time: TimeShape;
  readonly ambient: AmbientShape;
  readonly log: LogShape;
  /** Share of the process's memory that is in use, 0 to 1 and past it. Absent: never looked at. */
  readonly memoryInUse?: () => number;
}

/** The ports from the context, beside what the process decides. */
export const hostServices = (
  own: Pick<
    HostServices,
    "config" | "module" | "metrics" | "observability" | "calls" | "memoryInUse"
  >,
) =>
  Effect.gen(function* () {
    const time = yield* Time;
    const services: HostServices = {
      ...own,
      journal: yield* Journal,
      inbox: yield* Inbox,
      leases: yield* Leases,
      snapshots: yield* Snapshots,
      blobs: yield* Blobs,
      bus: yield* Bus,
      databases: yield* Databases,
      deadLetters: yield* DeadLetters,
      timers: yield* Timers,
      cron: yield* Cron,
      outgoing: Option.getOrElse(yield* Effect.serviceOption(Outgoing), () => NO_OUTGOING),
      mail: Option.getOrElse(yield* Effect.serviceOption(MailTransport), () => NO_MAIL_TRANSPORT),
      ...Option.match(yield* Effect.serviceOption(McpClients), {
        onNone: () => ({}),
        onSome: (mcp) => ({ mcp }),
      }),
      storing: new Set(),
      unbegun: new Unbegun(),
      rebuilds: new PrioritySemaphore(REBUILDS_MAX, slicesOf(time)),
      time,
      ambient: yield* Ambient,
      log: yield* Log,
    };
    return services;
  });
