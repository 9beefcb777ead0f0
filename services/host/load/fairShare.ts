/**
 * The share of the shards that one host aims for, decided from what it knows of the leases. Pure;
 * called by `Host` on every change. Every host decides for itself, so the rule must lead all of
 * them to the same distribution, in whatever order they decide.
 *
 * 1. At rest no host has more than one shard more than another: with `n` hosts each has
 *    `floor(shards / n)`, and `shards mod n` of them have one more.
 * 2. A host that has one more keeps it, so that no shard moves without need. When too many hosts
 *    have one more, those whose names sort last hand theirs over.
 */

interface ShareView {
  readonly shards: number;
  readonly self: string;
  /** Every live host, with or without shards; `self` counts whether or not it is among them. */
  readonly hosts: Iterable<string>;
  /** The holder of each shard that has one. Holders that are not live are ignored. */
  readonly holders: Iterable<string>;
}

/** How many shards `self` should own now. It hands over the excess, or claims what is missing. */
export function fairShare({ shards, self, hosts, holders }: ShareView): number {
  const counts = new Map<string, number>([[self, 0]]);
  for (const host of hosts) counts.set(host, 0);
  for (const holder of holders) {
    const count = counts.get(holder);
    if (count !== undefined) counts.set(holder, count + 1);
  }
  const least = Math.floor(shards / counts.size);
  const extras = shards % counts.size;
  if (extras === 0) return least;
  const above = [...counts].filter(([, count]) => count > least).map(([host]) => host);
  // Rule 2.
  const before = above.includes(self) ? above.filter((host) => host < self).length : above.length;
  return before < extras ? least + 1 : least;
}
