/**
 * The owners of shards as calls see them, from the leases that this process watches: how many each
 * shard has lost, and which hosts live. For `CallClient`, whose calls end when their owner is lost.
 *
 * An owner is lost when its lease ends without a release. A host that releases a shard has answered
 * every call that it took, so calls in flight then are with the next owner.
 */
import type { ShardId } from "../../schemas/Address.ts";
import { HOST_KEYS, idOfKey, shardOfKey } from "../lease/leaseKeys.ts";
import type { LeaseChange } from "../lease/Leases.ts";

/** How many owners a shard has lost while this process watched, and the last of them. */
export interface Losses {
  readonly count: number;
  readonly host: string;
}
const NO_LOSS: Losses = { count: 0, host: "" };

export class ShardOwners {
  /** One for all calls to a shard: one for each would take a twentieth of a small call's time. */
  private readonly out = new Map<ShardId, AbortController>();
  private readonly losses = new Map<ShardId, Losses>();
  /** Ids of hosts whose own lease lives. */
  private readonly hosts = new Set<string>();
  closed = false;

  /** `before`: the lease's holder until this change. */
  leaseChanged({ key, value, released }: LeaseChange, before: string | undefined): void {
    const host = idOfKey(key, HOST_KEYS);
    if (host !== undefined && value === undefined) this.hosts.delete(host);
    else if (host !== undefined) this.hosts.add(host);
    const shard = shardOfKey(key);
    if (shard === undefined || before === undefined || before === value) return;
    if (released === true) return;
    this.losses.set(shard, { count: this.lossesOf(shard).count + 1, host: before });
    this.abort(shard);
  }

  lossesOf(shard: ShardId): Losses {
    return this.losses.get(shard) ?? NO_LOSS;
  }

  isAlive(host: string): boolean {
    return this.hosts.has(host);
  }

  /** Fires when the shard's present owner is lost. */
  signalOf(shard: ShardId): AbortSignal {
    let controller = this.out.get(shard);
    if (controller === undefined) this.out.set(shard, (controller = new AbortController()));
    return controller.signal;
  }

  /** The process stops: fires all signals. */
  close(): void {
    this.closed = true;
    for (const shard of this.out.keys()) this.abort(shard);
  }

  private abort(shard: ShardId): void {
    const controller = this.out.get(shard);
    this.out.delete(shard);
    controller?.abort();
  }
}
