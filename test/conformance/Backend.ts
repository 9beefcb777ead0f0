/** The backend of a conformance suite: a broker, and the ports of any number of processes. */
import type { BlobsShape } from "../../core/journal/Blobs.ts";
import type { BusShape } from "../../core/bus/Bus.ts";
import type { DeadLettersShape } from "../../core/dead/DeadLetters.ts";
import type { DeliveryLogShape } from "../../core/delivery/DeliveryLog.ts";
import type { InboxShape } from "../../core/inbox/Inbox.ts";
import type { JournalShape } from "../../core/journal/Journal.ts";
import type { JournalFeedShape } from "../../core/journal/JournalFeed.ts";
import type { LeasesShape } from "../../core/lease/Leases.ts";
import type { QuarantinesShape } from "../../core/quarantine/Quarantines.ts";
import type { TimersShape } from "../../core/schedule/Timers.ts";
import type { SnapshotsShape } from "../../core/journal/Snapshots.ts";
import { agentId, shardOf, type AgentId, type ShardId } from "../../schemas/Address.ts";
import { encodeFrame } from "../../schemas/Frame.ts";
import type { PollAnswer } from "../kit/poll.ts";

export interface Ports {
  readonly journal: JournalShape;
  readonly feed: JournalFeedShape;
  readonly inbox: InboxShape;
  readonly leases: LeasesShape;
  readonly quarantines: QuarantinesShape;
  readonly snapshots: SnapshotsShape;
  readonly blobs: BlobsShape;
  readonly deadLetters: DeadLettersShape;
  readonly deliveries: DeliveryLogShape;
  readonly bus: BusShape;
  readonly timers: TimersShape;
}

export interface Backend {
  readonly name: string;
  /** Ports of one more process: a connection of its own. Closed with the backend. */
  readonly open: () => Promise<Ports>;
  /** Ends the broker without a goodbye; its disk stays. */
  readonly kill: () => Promise<void>;
  readonly restart: () => Promise<void>;
  /** The clock that the broker's timers go by. */
  readonly nowMs: () => number;
  /** The time of day that timers are armed by, milliseconds since the epoch. */
  readonly wallMs: () => number;
  /** Asks until the answer is wanted, letting time pass. */
  readonly until: <A>(
    what: string,
    check: () => PollAnswer<A> | Promise<PollAnswer<A>>,
  ) => Promise<A>;
  readonly close: () => Promise<void>;
}

/** What a suite may ask of its backend. */
export interface BackendOptions {
  readonly leaseTtlMs?: number;
}

/** Longer than a busy machine stands still: no lease ends unless a test ends it. */
export const LEASE_TTL_MS = 30_000;
export const SHARDS = 64;
export const PAYLOAD_BYTES_MAX = 1024 * 1024;
/** More than any payload limit in use, and several times the largest webhook body. */
export const LARGE_BYTES = 3 * 1024 * 1024;

let made = 0;
/** An agent that no other test uses. */
export const newAgent = (name = "agent"): AgentId => agentId("Repo", `${name}-${++made}`);

let shardsUsed = 0;
/** A shard that no other test consumes, and a way to name agents in it. */
export function newShard(): {
  readonly shard: ShardId;
  readonly agent: (label: string) => AgentId;
} {
  const shard = (shardsUsed++ % SHARDS) as ShardId;
  return {
    shard,
    agent: (label) => {
      for (;;) {
        const id = newAgent(label);
        if (shardOf(id, SHARDS) === shard) return id;
      }
    },
  };
}

/** A frame, as everything that is stored; unique by `id`. */
export const message = (id: string, bytes = 0): Uint8Array => {
  const body = new Uint8Array(bytes);
  // Neither all zeros nor repeating soon: compression must not hide a size.
  for (let i = 0, x = 12_345; i < bytes; i++) {
    x = (Math.imul(x, 1_103_515_245) + 12_345) >>> 0;
    body[i] = x >>> 24;
  }
  return encodeFrame({ id }, body);
};

/** Never fires: for operations that the test itself bounds. */
export const patient = (): AbortSignal => new AbortController().signal;

export const ODD_NAMES: ReadonlyArray<readonly [string, string]> = [
  ["spaces", "a name with spaces"],
  ["dots", "github.com/a.b/c..d"],
  ["a star", "*"],
  ["a greater-than sign", ">"],
  ["wildcards within", "x.*.>"],
  ["unicode", "Größe 大小 🦉"],
  ["control characters", "line\r\nline\ttab\u0000"],
  ["equals signs", "=20=.="],
  ["1,024 bytes", "ü".repeat(512)],
];
