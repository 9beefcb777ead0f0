/** Planted bugs of who owns a shard: what hosts once did. `plantedBugs` has the others. */
import type { ShardId } from "../../../schemas/Address.ts";
import type { Lease, LeaseChange } from "../../../core/lease/Leases.ts";
import { shardOfKey } from "../../../core/lease/leaseKeys.ts";
import { Host } from "../../../services/host/Host.ts";
import { patch } from "../rig/patch.ts";
import type { PlantedBug } from "./plantedBugs.ts";

/** The private members of a `Host` that a bug needs. */
interface HostParts {
  readonly services: { readonly config: { readonly hostId: string } };
  ownerOf: (shard: ShardId, lease?: Lease) => string | undefined;
  changed: (change: LeaseChange) => void;
}

export const LEASE_BUGS: ReadonlyArray<PlantedBug> = [
  {
    // Noted at the ack of a claim, forgotten with the watch's news: which may have come before.
    name: "a host remembers that it holds a shard, beside the leases that it renews",
    caughtBy: 272,
    breaks: ["I17"],
    install: () => {
      const remembered = new WeakMap<object, Set<ShardId>>();
      const of = (host: object): Set<ShardId> => {
        const shards = remembered.get(host) ?? new Set();
        remembered.set(host, shards);
        return shards;
      };
      const parts = Host.prototype as unknown as HostParts;
      const offOwner = patch(
        parts,
        "ownerOf",
        (plain) =>
          function (this: HostParts, shard, lease) {
            if (lease !== undefined) of(this).add(shard);
            const { hostId } = this.services.config;
            return of(this).has(shard) ? hostId : plain.call(this, shard);
          },
      );
      const offChanged = patch(
        parts,
        "changed",
        (plain) =>
          function (this: HostParts, change) {
            const shard = shardOfKey(change.key);
            if (shard !== undefined && change.value !== this.services.config.hostId)
              of(this).delete(shard);
            plain.call(this, change);
          },
      );
      return () => {
        offOwner();
        offChanged();
      };
    },
  },
];
