/**
 * What each stream of an installation looks like, and why. Read by `provision`; nothing else sets
 * a stream's configuration.
 */
import { SNAPSHOTS_KEPT } from "../../core/journal/Snapshots.ts";
import type { Subjects } from "../../schemas/Subjects.ts";

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
/** Where the number of shards is written: metadata of the first inbox. */
export const SHARDS_KEY = "agents.shards";
/**
 * And that of stream groups; absent in installations that are older than groups, which have one.
 */
export const STREAM_GROUPS_KEY = "agents.stream-groups";
/**
 * Expiry markers tell those who watch, at once; who was away lists again, so a minute is plenty.
 */
const MARKER_TTL_MS = 60_000;

/** The first is the first group's inbox, whose metadata say how the installation is divided. */
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
      // Whatever limit an operator may set: a full inbox refuses, it never forgets what was
      // acknowledged.
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
      // The server refuses scheduled messages where new ones are discarded; there is no limit that
      // could bite.
      discard: "old",
      allow_msg_schedules: true,
      // Also here: an inbox that is replaced is away for a moment (`moveInbox`).
      metadata,
    })),
    ...subjects.groups.map((group) => ({
      ...common,
      name: subjects.streamOf("journal", group),
      subjects: subjects.subjectsOf("journal", group),
      retention: "limits",
      // Whatever limit an operator may set: a full journal refuses, it never forgets.
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
    {
      // A key-value bucket, as the NATS tools know it. Its age limit is the leases' TTL: each
      // renewal is a new message and starts it again, while a TTL of the message itself would be
      // lost by an update.
      ...common,
      name: `KV_${bucket.leases}`,
      subjects: [`$KV.${bucket.leases}.>`],
      retention: "limits",
      discard: "new",
      max_msgs_per_subject: 1,
      allow_rollup_hdrs: true,
      deny_delete: true,
      max_age: choices.leaseTtlMs * NANOS_PER_MS,
      allow_msg_ttl: true,
      subject_delete_marker_ttl: MARKER_TTL_MS * NANOS_PER_MS,
      // An age limit shorter than this window is refused.
      duplicate_window: Math.min(choices.leaseTtlMs, 120_000) * NANOS_PER_MS,
    },
    {
      // An object store, as the NATS tools know it.
      ...common,
      name: `OBJ_${bucket.blobs}`,
      subjects: [`$O.${bucket.blobs}.C.>`, `$O.${bucket.blobs}.M.>`],
      retention: "limits",
      discard: "new",
      allow_rollup_hdrs: true,
    },
    {
      // Written once (`blobStores`): gateways publish here, and may neither replace nor remove
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
  ];
}
