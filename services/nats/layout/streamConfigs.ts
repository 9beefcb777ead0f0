/**
 * The configuration of each stream of an installation, with its reasons. Read by `provision`;
 * nothing else configures streams.
 */
import { SNAPSHOTS_KEPT } from "../../../core/journal/Snapshots.ts";
import type { Subjects } from "../../../schemas/Subjects.ts";

export interface StreamChoices {
  readonly replicas: number;
  readonly storage: "file" | "memory";
  readonly leaseTtlMs: number;
  readonly placement: Placement | undefined;
}

/** Which servers may hold a stream's copies. */
export interface Placement {
  readonly cluster?: string;
  readonly tags?: ReadonlyArray<string>;
}

/** A stream's configuration as the JetStream API spells it (durations in nanoseconds). */
export type StreamConfig = { readonly name: string } & Readonly<Record<string, unknown>>;

export const NANOS_PER_MS = 1_000_000;
/** The metadata key of the number of shards, in every inbox and timers' stream. */
export const SHARDS_KEY = "agents.shards";
/** The same for stream groups. Absent in installations older than groups, which have one. */
export const STREAM_GROUPS_KEY = "agents.stream-groups";
/** The version of the stored formats (`schemas/StoredFormats`). Absent: 1. */
export const FORMATS_KEY = "agents.formats";
/**
 * Watchers receive expiry markers at once, and one that was cut off lists again: a minute is
 * plenty.
 */
const MARKER_TTL_MS = 60_000;

/**
 * Providers send again for three days, and questions about last week can be answered. Half a
 * gigabyte is some three million deliveries. Refused requests, which strangers send, have an
 * eighth.
 */
const DELIVERIES_AGE_MS = 14 * 24 * 60 * 60 * 1_000;
export const DELIVERIES_BYTES = 512 * 1024 * 1024;
export const REFUSALS_BYTES = 64 * 1024 * 1024;

/** The first element is the first group's inbox, whose metadata has the layout. */
export function streamConfigs(subjects: Subjects, choices: StreamChoices): readonly StreamConfig[] {
  const { namespace, stream, bucket, layout } = subjects;
  const common = {
    storage: choices.storage,
    num_replicas: choices.replicas,
    ...(choices.placement === undefined ? {} : { placement: choices.placement }),
    allow_direct: true,
    // A cold read of one subject must not unpack a whole block (p50 6 ms instead of 0.2).
    compression: "none",
    max_msgs: -1,
    max_bytes: -1,
    max_age: 0,
  };
  const metadata = {
    [SHARDS_KEY]: String(layout.shards),
    [STREAM_GROUPS_KEY]: String(layout.streamGroups),
  };
  return [
    ...subjects.groups.map((group) => ({
      ...common,
      name: subjects.streamOf("inbox", group),
      subjects: subjects.subjectsOf("inbox", group),
      retention: "workqueue",
      // If an operator sets a limit, a full inbox refuses messages and never drops acknowledged
      // ones.
      discard: "new",
      // Gateways publish here, and one message with `Nats-Rollup: all` would empty the stream.
      // Scheduled messages would turn rollups on, so they have a stream of their own.
      allow_rollup_hdrs: false,
      allow_msg_schedules: false,
      // Group commit (`GroupPublisher`).
      allow_atomic: true,
      metadata,
    })),
    ...subjects.groups.map((group) => ({
      ...common,
      name: subjects.streamOf("timers", group),
      subjects: subjects.subjectsOf("timers", group),
      retention: "workqueue",
      // The server refuses scheduled messages with `discard: new`. There is no limit that could
      // drop any.
      discard: "old",
      allow_msg_schedules: true,
      // Stored here too, because an inbox that is being replaced is absent for a moment
      // (`moveInbox`).
      metadata,
    })),
    ...subjects.groups.map((group) => ({
      ...common,
      name: subjects.streamOf("journal", group),
      subjects: subjects.subjectsOf("journal", group),
      retention: "limits",
      // If an operator sets a limit, a full journal refuses events and never drops any.
      discard: "new",
      allow_atomic: true,
    })),
    ...subjects.groups.map((group) => ({
      ...common,
      name: subjects.streamOf("snapshots", group),
      subjects: subjects.subjectsOf("snapshots", group),
      retention: "limits",
      discard: "old",
      max_msgs_per_subject: SNAPSHOTS_KEPT,
    })),
    {
      ...common,
      name: stream.dead,
      subjects: [`${namespace}.dead.>`],
      retention: "limits",
      discard: "new",
    },
    // Gateways' leases are apart (`leaseBuckets`): the server refuses expiry markers without
    // rollups.
    ...[bucket.leases, bucket.gateways].map((leases) => ({
      // A key-value bucket in the layout of the NATS tools. Its age limit is the leases' TTL: each
      // renewal is a new message and restarts it, while an update would lose a TTL of the message
      // itself.
      ...common,
      name: `KV_${leases}`,
      subjects: [`$KV.${leases}.>`],
      retention: "limits",
      discard: "new",
      max_msgs_per_subject: 1,
      allow_rollup_hdrs: true,
      deny_delete: true,
      max_age: choices.leaseTtlMs * NANOS_PER_MS,
      allow_msg_ttl: true,
      subject_delete_marker_ttl: MARKER_TTL_MS * NANOS_PER_MS,
      // The server refuses an age limit shorter than this window.
      duplicate_window: Math.min(choices.leaseTtlMs, 120_000) * NANOS_PER_MS,
    })),
    {
      // An object store in the layout of the NATS tools.
      ...common,
      name: `OBJ_${bucket.blobs}`,
      subjects: [`$O.${bucket.blobs}.C.>`, `$O.${bucket.blobs}.M.>`],
      retention: "limits",
      discard: "new",
      allow_rollup_hdrs: true,
    },
    {
      // Written once (`blobStores`). Gateways publish here, and may neither replace nor remove
      // anything.
      ...common,
      name: stream.bodies,
      subjects: [`${namespace}.body.>`],
      retention: "limits",
      discard: "new",
      discard_new_per_subject: true,
      max_msgs_per_subject: 1,
      allow_rollup_hdrs: false,
      allow_msg_ttl: true,
    },
    ...[
      { name: stream.deliveries, kind: "taken", max_bytes: DELIVERIES_BYTES } as const,
      { name: stream.refusals, kind: "refused", max_bytes: REFUSALS_BYTES } as const,
    ].map(({ name, kind, max_bytes }) => ({
      ...common,
      name,
      subjects: [subjects.delivery(kind)],
      retention: "limits",
      // The delivery log drops its oldest records.
      discard: "old",
      max_bytes,
      max_age: DELIVERIES_AGE_MS * NANOS_PER_MS,
      // Read in order, by people.
      compression: "s2",
      allow_rollup_hdrs: false,
    })),
  ];
}
