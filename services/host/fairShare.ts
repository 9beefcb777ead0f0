/**
 * Which share of the shards one host aims for, decided from what it sees of the leases. Pure; asked by
 * `Host` whenever something changed. Every host decides for itself, so the rule must lead all of them to
 * the same end whatever the order in which they look.
 *
 * 1. At rest no host has more than one shard more than another: with `n` hosts each has
 *    `floor(shards / n)`, and `shards mod n` of them one more.
 * 2. Who has one more keeps it, so that nothing moves that need not: only where too many have one, those
 *    whose names come last give theirs up.
 */

export interface ShareView {
  readonly shards: number;
  readonly self: string;
  /** Every live host, with or without shards; `self` counts whether or not it is among them. */
  readonly hosts: Iterable<string>;
  /** Holder of each shard that has one; a host that is not live counts for nothing. */
  readonly holders: Iterable<string>;
}

/** How many shards `self` should have now: those above it it hands over, those below it it claims. */
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
