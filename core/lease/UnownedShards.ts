/**
 * Which shards have no owner, and since when, as one process sees it. `Host` and `Gateway` note
 * what `shardOwner` says; `/readyz` and the metrics count. A shard without an owner for a moment is
 * moving from one host to the next.
 */
import type { ShardId } from "../../schemas/Address.ts";

/** A dead host's leases run out within one TTL, and the next host claims within another. */
export const UNOWNED_TTLS_MAX = 2;

export class UnownedShards {
  /** Monotonic, by shard. */
  private readonly sinceMs = new Map<ShardId, number>();

  /** Initially no shard has an owner. */
  constructor(shards: number, nowMs: number) {
    for (let shard = 0; shard < shards; shard++) this.sinceMs.set(shard as ShardId, nowMs);
  }

  note(shard: ShardId, isOwned: boolean, nowMs: number): void {
    if (isOwned) this.sinceMs.delete(shard);
    else if (!this.sinceMs.has(shard)) this.sinceMs.set(shard, nowMs);
  }

  get count(): number {
    return this.sinceMs.size;
  }

  /** Shards that have had no owner for longer than `UNOWNED_TTLS_MAX` TTLs. */
  overdue(nowMs: number, ttlMs: number): number {
    let count = 0;
    for (const sinceMs of this.sinceMs.values())
      if (nowMs - sinceMs > UNOWNED_TTLS_MAX * ttlMs) count++;
    return count;
  }
}
