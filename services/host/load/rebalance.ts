/**
 * Which shards a host claims and hands over to get nearer to its share (`fairShare`), decided from
 * what it knows of the leases. Pure; called by `Host` on every change, which carries it out.
 */
import type { ShardId } from "../../../schemas/Address.ts";
import { fairShare } from "./fairShare.ts";

/**
 * Shards started at once. Each start is seven requests to the broker in sequence, and a dead host's
 * shards become free all at once.
 */
const CLAIMS_AT_ONCE = 32;
/** Shards handed over at once by a running host: a slow turn in one must not hold up the others. */
const HAND_OVERS_AT_ONCE = 8;

interface Shards {
  readonly size: number;
  has(shard: ShardId): boolean;
  keys(): Iterable<ShardId>;
}

interface ShardsView {
  readonly self: string;
  /** Every live host. */
  readonly hosts: Iterable<string>;
  /** The owner of each shard, by its number; undefined for a shard that is free. */
  readonly owners: ReadonlyArray<string | undefined>;
  /** Claimed by `self` and not lost. */
  readonly owned: Shards;
  /** Those of `owned` that are being handed over. */
  readonly leaving: Shards;
  /** Being claimed, or claimed and being started. */
  readonly claiming: Shards;
  /** Free, but not to be claimed yet. */
  readonly passed: Pick<Shards, "has">;
  /** As `Time.random`. */
  readonly random: () => number;
}

interface Rebalance {
  readonly claims: ReadonlyArray<ShardId>;
  readonly handOvers: ReadonlyArray<ShardId>;
}

export function rebalance(view: ShardsView): Rebalance {
  const { self, hosts, owners, owned, leaving, claiming, passed } = view;
  const isLeaving = (owner: string, n: number): boolean =>
    owner === self && leaving.has(n as ShardId);
  const holders = owners.filter(
    (owner, n): owner is string => owner !== undefined && !isLeaving(owner, n),
  );
  const share = fairShare({ shards: owners.length, self, hosts, holders });
  const staying = [...owned.keys()].filter((shard) => !leaving.has(shard));
  const excess = Math.min(staying.length - share, HAND_OVERS_AT_ONCE - leaving.size);
  const free = owners
    .flatMap((owner, n) => (owner === undefined ? [n as ShardId] : []))
    .filter((shard) => !claiming.has(shard) && !passed.has(shard));
  const coming = [...claiming.keys()].filter((shard) => !owned.has(shard)).length;
  const wanted = Math.min(
    share - staying.length - coming,
    CLAIMS_AT_ONCE - claiming.size,
    free.length,
  );
  // Starts at a random shard, so that hosts that start together seldom claim the same one.
  const from = Math.floor(view.random() * free.length);
  return {
    claims: Array.from({ length: Math.max(0, wanted) }, (_, n) => free[(from + n) % free.length]!),
    handOvers: staying.slice(0, Math.max(0, excess)),
  };
}
