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
/** Watchers get expiry markers at once, and list again after a cut: a minute is plenty. */
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
  const common = {
    storage: choices.storage,
    retention: "limits",
    discard: "new",
    num_replicas: choices.replicas,
    ...(choices.placement === undefined ? {} : { placement: choices.placement }),
    allow_direct: true,
    // A cold read of one subject must not unpack a whole block (p50 6 ms instead of 0.2).
    compression: "none",
    max_msgs: -1,
    max_bytes: -1,
    max_age: 0,
  };
  return [
    ...groupStreams(subjects),
    deadLetters(subjects),
    // Gateways' leases are apart (`leaseBuckets`): the server refuses expiry markers without
    // rollups.
    leaseBucket(subjects.bucket.leases, choices.leaseTtlMs),
    leaseBucket(subjects.bucket.gateways, choices.leaseTtlMs),
    objectStore(subjects.bucket.blobs),
    bodies(subjects),
    logStream(subjects.stream.deliveries, subjects.delivery("taken"), DELIVERIES_BYTES),
    logStream(subjects.stream.refusals, subjects.delivery("refused"), REFUSALS_BYTES),
  ].map((config) => ({ ...common, ...config }));
}

/** The streams that each group has, by kind. */
function groupStreams(subjects: Subjects): readonly StreamConfig[] {
  const { layout } = subjects;
  const metadata = {
    [SHARDS_KEY]: String(layout.shards),
    [STREAM_GROUPS_KEY]: String(layout.streamGroups),
  };
  const kinds = {
    inbox: {
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
    },
    timers: {
      retention: "workqueue",
      // The server refuses scheduled messages with `discard: new`. There is no limit that could
      // drop any.
      discard: "old",
      allow_msg_schedules: true,
      // Stored here too, because an inbox that is being replaced is absent for a moment
      // (`moveInbox`).
      metadata,
    },
    journal: {
      // If an operator sets a limit, a full journal refuses events and never drops any.
      discard: "new",
      allow_atomic: true,
    },
    snapshots: {
      discard: "old",
      max_msgs_per_subject: SNAPSHOTS_KEPT,
    },
  };
  return (Object.keys(kinds) as Array<keyof typeof kinds>).flatMap((kind) =>
    subjects.groups.map((group) => ({
      name: subjects.streamOf(kind, group),
      subjects: subjects.subjectsOf(kind, group),
      ...kinds[kind],
    })),
  );
}

const deadLetters = ({ stream, namespace }: Subjects): StreamConfig => ({
  name: stream.dead,
  subjects: [`${namespace}.dead.>`],
});

/**
 * A key-value bucket in the layout of the NATS tools. Its age limit is the leases' TTL: each
 * renewal is a new message and restarts it, while an update would lose a TTL of the message itself.
 */
const leaseBucket = (name: string, leaseTtlMs: number): StreamConfig => ({
  name: `KV_${name}`,
  subjects: [`$KV.${name}.>`],
  max_msgs_per_subject: 1,
  allow_rollup_hdrs: true,
  deny_delete: true,
  max_age: leaseTtlMs * NANOS_PER_MS,
  allow_msg_ttl: true,
  subject_delete_marker_ttl: MARKER_TTL_MS * NANOS_PER_MS,
  // The server refuses an age limit shorter than this window.
  duplicate_window: Math.min(leaseTtlMs, 120_000) * NANOS_PER_MS,
});

/** In the layout of the NATS tools. */
const objectStore = (name: string): StreamConfig => ({
  name: `OBJ_${name}`,
  subjects: [`$O.${name}.C.>`, `$O.${name}.M.>`],
  allow_rollup_hdrs: true,
});

/** Written once (`blobStores`). Gateways publish here, and may not replace or remove anything. */
const bodies = ({ stream, namespace }: Subjects): StreamConfig => ({
  name: stream.bodies,
  subjects: [`${namespace}.body.>`],
  discard_new_per_subject: true,
  max_msgs_per_subject: 1,
  allow_rollup_hdrs: false,
  allow_msg_ttl: true,
});

/** A part of the delivery log, which drops its oldest records. */
const logStream = (name: string, subject: string, bytesMax: number): StreamConfig => ({
  name,
  subjects: [subject],
  discard: "old",
  max_bytes: bytesMax,
  max_age: DELIVERIES_AGE_MS * NANOS_PER_MS,
  // Read in order, by people.
  compression: "s2",
  allow_rollup_hdrs: false,
});
