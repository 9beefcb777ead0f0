/**
 * The snapshot port: the last few images of an agent, newest first. Never the truth: losing all of
 * them only makes activation slower. `services/nats/NatsSnapshots` (large ones compressed and, past
 * the payload limit, in the blob store), `services/memory/MemorySnapshots`.
 */
import * as Context from "effect/Context";
import type { AgentId } from "../../schemas/Address.ts";

/** Kept per agent: the newest may be bad, and then the one before it serves. */
export const SNAPSHOTS_KEPT = 2;

export interface SnapshotsShape {
  /** Stores a `Snapshot` frame. Rejects with `BrokerUnavailable`; the caller goes on without. */
  readonly put: (id: AgentId, data: Uint8Array) => Promise<void>;
  /**
   * Snapshot frames, newest first; unreadable ones are skipped by the caller. Rejects with
   * `BrokerUnavailable`.
   */
  readonly newestFirst: (id: AgentId) => AsyncIterable<Uint8Array>;
}

export class Snapshots extends Context.Service<Snapshots, SnapshotsShape>()(
  "agents/core/snapshot/Snapshots",
) {}
