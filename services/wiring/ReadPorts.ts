/**
 * An installation as commands see it that read agents or act on them from outside. `joinReader`
 * opens one; tests use doubles.
 */
import type { CallClient } from "../../core/call/CallClient.ts";
import type { DatabasesShape } from "../../core/database/Databases.ts";
import type { DeadLettersShape } from "../../core/dead/DeadLetters.ts";
import type { DeliveryLogShape } from "../../core/delivery/DeliveryLog.ts";
import type { InboxShape } from "../../core/inbox/Inbox.ts";
import type { JournalShape } from "../../core/journal/Journal.ts";
import type { ArchiveShape } from "../../core/retention/Archive.ts";
import type { ChangeSources } from "../../core/changes/changes.ts";
import type { JournalFeedShape } from "../../core/journal/JournalFeed.ts";
import type { LeasesShape } from "../../core/lease/Leases.ts";
import type { LogShape } from "../../core/telemetry/Log.ts";
import type { QuarantinesShape } from "../../core/quarantine/Quarantines.ts";
import type { TimersShape } from "../../core/schedule/Timers.ts";
import type { Purged } from "../../core/journal/Purged.ts";
import type { SnapshotsShape } from "../../core/journal/Snapshots.ts";
import type { AgentId, Sequence } from "../../schemas/Address.ts";
import type { BackupEntry, BackupPart } from "../../schemas/BackupFile.ts";
import type { NatsLogin } from "../nats/client/login.ts";

/** The login to the broker, beside what its URL contains. Paths are absolute. */
export type BrokerLogin = NatsLogin;

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
  /** All of one kind that the installation stores. Rejects with `BrokerUnavailable`. */
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
  /** Servers that have copies and are away or behind: data removed now may stay in their files. */
  readonly awayCopies: () => Promise<ReadonlyArray<string>>;
  /** Has all hosts remove their files of an agent. Resolves to those of `hosts` that did. */
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
  /** Receives lost and restored connections. Default: lines for people on standard error. */
  readonly log?: LogShape;
}

/** Time limit to store one message of `journal` or `inbox`. Past it the broker is unreachable. */
export const STORE_TIMEOUT_MS = 30_000;
