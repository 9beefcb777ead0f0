/**
 * The leases as a watch has reported them so far, by key. Fed by `Leases.watch` only, in the
 * watch's order; read by `Host` and `Gateway`. A process knows its own leases from its claims and
 * renewals, not from here. `shardOwner`, a pure function, joins the two on each call, and nothing
 * caches its answer.
 */
import type { ShardId } from "../../schemas/Address.ts";
import { keyOfShard, shardOfKey } from "./leaseKeys.ts";
import type { Lease, LeaseChange } from "./Leases.ts";

/** The latest report of a key: its holder, or undefined when it has none. */
type Watched = Pick<LeaseChange, "value" | "revision">;

export class LeaseView {
  private readonly keys = new Map<string, Watched>();

  /** Takes a change; returns the holder that the key had before it. */
  heard({ key, value, revision }: LeaseChange): string | undefined {
    const before = this.keys.get(key)?.value;
    // The end of a shard's lease is kept, since a claim's ack may come after it. Other keys are of
    // processes: more and more.
    if (value === undefined && shardOfKey(key) === undefined) this.keys.delete(key);
    else this.keys.set(key, { value, revision });
    return before;
  }

  ofShard(shard: ShardId): Watched | undefined {
    return this.keys.get(keyOfShard(shard));
  }

  /** Live keys that begin with `prefix`, without it. */
  *live(prefix: string): Iterable<string> {
    for (const [key, { value }] of this.keys)
      if (value !== undefined && key.startsWith(prefix)) yield key.slice(prefix.length);
  }
}

interface ShardFacts {
  /** The process that asks. Undefined: one that holds no shards. */
  readonly self: string | undefined;
  /** The shard's lease that `self` has claimed and not lost since, by its own renewals. */
  readonly lease: Pick<Lease, "epoch"> | undefined;
  readonly watched: Watched | undefined;
}

/**
 * Who owns a shard, as far as one process can know. Undefined: nobody, and it is free to be
 * claimed.
 *
 * An own lease counts until the watch reports something newer than its claim. If the watch names
 * `self` for a lease that `self` does not have, nobody owns the shard: the lease, or the ack of its
 * claim, was lost. The watch may never report more, so the shard is claimed again, and the store
 * refuses that while the lease lives.
 */
export function shardOwner({ self, lease, watched }: ShardFacts): string | undefined {
  if (lease !== undefined && !contradicts(watched, lease, self)) return self;
  return watched?.value === self ? undefined : watched?.value;
}

/** Whether the watch has another's value or none, not older than the claim: the lease is over. */
const contradicts = (
  watched: Watched | undefined,
  { epoch }: Pick<Lease, "epoch">,
  self: string | undefined,
): boolean => watched !== undefined && watched.revision >= epoch && watched.value !== self;
