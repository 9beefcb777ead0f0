/**
 * Everything that a host depends on, as one record: the ports, the module's classes, and the host's
 * limits. `runHost` builds it from the layers of a process; tests build it from memory adapters.
 */
import * as Effect from "effect/Effect";
import * as Option from "effect/Option";
import { Ambient, type AmbientShape } from "../../core/turn/Ambient.ts";
import type { RecordedSteps } from "../../core/step/RecordedSteps.ts";
import type { Observability } from "../../core/telemetry/observability.ts";
import { Blobs, type BlobsShape } from "../../core/journal/Blobs.ts";
import { Bus, type BusShape } from "../../core/bus/Bus.ts";
import type { CallClient } from "../../core/call/CallClient.ts";
import { DeliveryLog, type DeliveryLogShape } from "../../core/delivery/DeliveryLog.ts";
import { Databases, type DatabasesShape } from "../../core/database/Databases.ts";
import { DeadLetters, type DeadLettersShape } from "../../core/dead/DeadLetters.ts";
import { Inbox, type InboxShape } from "../../core/inbox/Inbox.ts";
import { Journal, type JournalShape } from "../../core/journal/Journal.ts";
import { Leases, type LeasesShape } from "../../core/lease/Leases.ts";
import { Quarantines, type QuarantinesShape } from "../../core/quarantine/Quarantines.ts";
import { Log, type LogShape } from "../../core/telemetry/Log.ts";
import {
  MailTransport,
  NO_MAIL_TRANSPORT,
  type MailTransportShape,
} from "../../core/mail/MailTransport.ts";
import { NO_OUTGOING, Outgoing, type OutgoingShape } from "../../core/outgoing/Outgoing.ts";
import { McpClients, type McpClientsShape } from "../../core/mcp/McpClients.ts";
import { Snapshots, type SnapshotsShape } from "../../core/journal/Snapshots.ts";
import type { QueriesShape } from "../../core/query/Queries.ts";
import { Cron, type CronShape } from "../../core/schedule/Cron.ts";
import { Timers, type TimersShape } from "../../core/schedule/Timers.ts";
import { slicesOf } from "../../core/time/TimeSlices.ts";
import { RequestLog, type RequestLines } from "../../core/telemetry/RequestLog.ts";
import { Time, type TimeShape } from "../../core/time/Time.ts";
import type { AgentClassType } from "../../core/runtime/AgentParts.ts";
import { Unbegun, type LastEndings } from "../../core/input/Unbegun.ts";
import type { CeilingOptions } from "../../core/turn/Ceilings.ts";
import { Usage } from "../../core/telemetry/Usage.ts";
import { TurnLimits } from "../../core/turn/TurnLimits.ts";
import type { WriteLimitOptions } from "../../core/turn/WriteLimits.ts";
import type { AgentId } from "../../schemas/Address.ts";
import type { Subjects } from "../../schemas/Subjects.ts";
import type { AgentMetrics } from "../../core/telemetry/AgentMetrics.ts";
import type { Isolation } from "../../core/input/Isolation.ts";
import { PrioritySemaphore } from "./load/PrioritySemaphore.ts";

/** Enough to keep the broker busy: a rebuild is a few round trips, with a batch of events. */
const REBUILDS_MAX = 128;

export interface HostConfig {
  /** Unique per process life. Appears in leases, events and logs. */
  readonly hostId: string;
  readonly subjects: Subjects;
  readonly shards: number;
  /** How long a stopping host waits for running turns. */
  readonly drainTimeoutMs: number;
  /** How often idle agents are looked for. Default 1000. */
  readonly sweepMs?: number | undefined;
  /** Seconds that a turn may take where its class does not say; 0: no limit. Default 900. */
  readonly turnSeconds?: number | undefined;
  /** Upper limits for every class. */
  readonly ceilings?: CeilingOptions | undefined;
  /** Upper limits for every class. */
  readonly writeLimits?: WriteLimitOptions | undefined;
  /** Which runs have a line in the log. Default `failed`. */
  readonly requestLines?: RequestLines | undefined;
}

/** The part of a module that a host uses. */
interface HostModule {
  readonly agents: ReadonlyMap<string, AgentClassType>;
  readonly env: unknown;
  /** Tells this code from other code of the module. Absent: not known. */
  readonly version?: string | undefined;
  /** Recorded steps, for past turns that are run again. Absent: no turn is. */
  readonly recorded?: RecordedSteps | undefined;
}

export interface HostServices {
  /** For agents whose class sets none. */
  readonly observability: Observability;
  readonly config: HostConfig;
  /** A function, because `agents dev` replaces the module while the host runs. */
  readonly module: () => HostModule;
  readonly metrics: Pick<AgentMetrics, "budgetRefused" | "budgetSpent" | "budgets" | "ofClass">;
  readonly journal: JournalShape;
  readonly inbox: InboxShape;
  readonly leases: LeasesShape;
  readonly quarantines: QuarantinesShape;
  readonly snapshots: SnapshotsShape;
  readonly blobs: BlobsShape;
  readonly bus: BusShape;
  readonly databases: DatabasesShape;
  readonly deadLetters: DeadLettersShape;
  readonly timers: TimersShape;
  readonly cron: CronShape;
  readonly outgoing: OutgoingShape;
  /** The client by which agents here call others. It is notified of lease changes. */
  readonly calls?: Pick<CallClient, "leaseChanged" | "serveInputs">;
  /** Absent in a process without MCP clients. */
  readonly mcp?: McpClientsShape | undefined;
  /** Absent without a relay: no mail is sent. */
  readonly mail?: MailTransportShape;
  /** Snapshots that are being stored. A stopping host waits up to two seconds for them. */
  readonly storing: Set<Promise<void>>;
  /** Agents of this host's shards that are quarantined, by `addressKey`. */
  readonly quarantined: Set<string>;
  /** Absent in a host that isolates no agent. */
  readonly isolation?: Isolation | undefined;
  /** Absent: questions over all agents are refused. */
  readonly queries?: QueriesShape | undefined;
  /** Registers a function to call when a turn has held this thread. Absent: nothing watches. */
  readonly onStall?: ((tell: (id: AgentId, ms: number) => void) => void) | undefined;
  /** What the agents here cost. */
  readonly usage: Usage;
  /** The turns that run here. */
  readonly turnLimits: TurnLimits;
  /** Announced attempts that have not begun. */
  readonly unbegun: Unbegun;
  /** Bounds how many agents are rebuilt at once. */
  readonly rebuilds: PrioritySemaphore;
  readonly time: TimeShape;
  readonly ambient: AmbientShape;
  readonly log: LogShape;
  /** Absent: no run has a line. */
  readonly requests?: RequestLog;
  /** Absent: deliveries are not recorded. */
  readonly deliveries?: DeliveryLogShape | undefined;
  /** Share of the process's memory in use: 1 is full, and it may exceed 1. Absent: not measured. */
  readonly memoryInUse?: () => number;
}

/** Completes what the process decides with the ports from the context. */
export const hostServices = ({
  endings,
  ...own
}: Pick<
  HostServices,
  | "config"
  | "module"
  | "metrics"
  | "observability"
  | "calls"
  | "memoryInUse"
  | "isolation"
  | "onStall"
  | "queries"
> & { readonly endings?: LastEndings }) =>
  Effect.gen(function* () {
    const time = yield* Time;
    const log = yield* Log;
    const services: HostServices = {
      ...own,
      journal: yield* Journal,
      inbox: yield* Inbox,
      leases: yield* Leases,
      quarantines: yield* Quarantines,
      snapshots: yield* Snapshots,
      blobs: yield* Blobs,
      bus: yield* Bus,
      databases: yield* Databases,
      deadLetters: yield* DeadLetters,
      timers: yield* Timers,
      cron: yield* Cron,
      outgoing: Option.getOrElse(yield* Effect.serviceOption(Outgoing), () => NO_OUTGOING),
      mail: Option.getOrElse(yield* Effect.serviceOption(MailTransport), () => NO_MAIL_TRANSPORT),
      mcp: Option.getOrUndefined(yield* Effect.serviceOption(McpClients)),
      storing: new Set(),
      quarantined: new Set(),
      usage: new Usage(own.metrics.ofClass),
      turnLimits: new TurnLimits((of) => own.metrics.ofClass(of).turnGivenUp()),
      unbegun: new Unbegun(endings),
      rebuilds: new PrioritySemaphore(REBUILDS_MAX, slicesOf(time)),
      time,
      ambient: yield* Ambient,
      log,
      requests: new RequestLog(log, time, own.config.requestLines),
      deliveries: Option.getOrUndefined(yield* Effect.serviceOption(DeliveryLog)),
    };
    return services;
  });
