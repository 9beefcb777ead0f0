/** Who holds the shards of an installation, by its leases. */
import type { LeasesShape } from "../../core/lease/Leases.ts";
import { pollUntil, type PollOptions } from "./poll.ts";

type Listed = Pick<LeasesShape, "list">;

/** How many shards each holder has. */
export async function shardShares(leases: Listed): Promise<ReadonlyMap<string, number>> {
  const shares = new Map<string, number>();
  for (const { value } of await leases.list("shard."))
    shares.set(value, (shares.get(value) ?? 0) + 1);
  return shares;
}

export interface SharedOptions extends PollOptions {
  readonly shards: number;
  readonly holders: number;
  /** What to say beside the shares when it takes too long. */
  readonly told?: () => string;
}

/** Resolves when so many holders share all shards, none with more than its fair share. */
export async function untilShared(
  leases: Listed,
  { shards, holders, told, ...patience }: SharedOptions,
): Promise<void> {
  const fair = Math.ceil(shards / holders);
  await pollUntil(
    `${holders} hosts share ${shards} shards`,
    async () => {
      const shares = await shardShares(leases);
      const counts = [...shares.values()];
      const owned = counts.reduce((sum, count) => sum + count, 0);
      const isFair = owned === shards && shares.size === holders && Math.max(...counts) <= fair;
      return isFair || { done: false, saw: [shares, told?.()] };
    },
    patience,
  );
}
