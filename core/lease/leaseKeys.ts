/**
 * The keys of leases: one for each shard, held by the host that owns it, and one for each process
 * of a host or gateway, which shows the others that it lives. Processes of all releases use the
 * same keys. Pure.
 */
import type { ShardId } from "../../schemas/Address.ts";

/** Starts of keys, as `Leases.list` takes them; the shard's number or the process's id follows. */
export const SHARD_KEYS = "shard.";
export const HOST_KEYS = "host.";
export const GATEWAY_KEYS = "gateway.";

export const keyOfShard = (shard: ShardId): string => `${SHARD_KEYS}${shard}`;

/** The shard of a key; undefined for other keys. */
export const shardOfKey = (key: string): ShardId | undefined =>
  key.startsWith(SHARD_KEYS) ? (Number(key.slice(SHARD_KEYS.length)) as ShardId) : undefined;

/** The id of a host or gateway whose own key it is; undefined for other keys. */
export const idOfKey = (
  key: string,
  keys: typeof HOST_KEYS | typeof GATEWAY_KEYS,
): string | undefined => (key.startsWith(keys) ? key.slice(keys.length) : undefined);
