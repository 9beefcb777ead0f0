/**
 * The leases of a `MemoryBroker`. Every change takes the next revision. The revision of a claim is
 * the lease's epoch, so epochs only grow. Expiry is a timer, which each renewal restarts and which
 * pauses while the broker is stopped.
 */
import type { Lease, LeaseChange } from "../../core/lease/Leases.ts";
import type { TimeShape } from "../../core/time/Time.ts";
import type { Epoch } from "../../schemas/Address.ts";

interface Entry {
  readonly lease: Lease;
  revision: number;
  cancelExpiry: () => void;
}

export class LeaseStore {
  private readonly entries = new Map<string, Entry>();
  private readonly watchers = new Set<(change: LeaseChange) => void>();
  private revision = 0;

  constructor(
    private readonly time: TimeShape,
    private readonly ttlMs: number,
  ) {}

  /** Returns undefined when another lease holds the key. */
  claim(key: string, value: string): Lease | undefined {
    if (this.entries.has(key)) return undefined;
    const lease = { key, value, epoch: (this.revision + 1) as Epoch };
    this.put(lease);
    return lease;
  }

  /** Returns false when the lease no longer holds its key. */
  renew(lease: Lease, value: string): boolean {
    const entry = this.entries.get(lease.key);
    if (entry === undefined || entry.lease.epoch !== lease.epoch) return false;
    this.put({ ...lease, value });
    return true;
  }

  /** Returns undefined when the lease no longer holds its key. */
  supersede(lease: Lease, value: string): Lease | undefined {
    if (this.entries.get(lease.key)?.lease.epoch !== lease.epoch) return undefined;
    const next = { key: lease.key, value, epoch: (this.revision + 1) as Epoch };
    this.put(next);
    return next;
  }

  release(lease: Lease): void {
    if (this.entries.get(lease.key)?.lease.epoch === lease.epoch)
      this.remove(lease.key, { released: true });
  }

  /** Expires every lease with this value now, as if its holder had died a TTL ago. */
  expire(value: string): void {
    for (const [key, { lease }] of this.entries) if (lease.value === value) this.remove(key);
  }

  /**
   * Removes a lease that is neither released nor expired, as a broker may lose one that it has
   * acknowledged. Returns false when the key has another lease, or none.
   */
  wipe(key: string, epoch: number): boolean {
    if (this.entries.get(key)?.lease.epoch !== epoch) return false;
    this.remove(key);
    return true;
  }

  /** The live leases and their latest revisions. */
  live(): ReadonlyArray<{ readonly lease: Lease; readonly revision: number }> {
    return [...this.entries.values()].map(({ lease, revision }) => ({ lease, revision }));
  }

  /** The returned function ends the watch. */
  watch(onChange: (change: LeaseChange) => void): () => void {
    this.watchers.add(onChange);
    return () => this.watchers.delete(onChange);
  }

  pause(): void {
    for (const entry of this.entries.values()) entry.cancelExpiry();
  }

  resume(): void {
    for (const entry of this.entries.values()) this.arm(entry);
  }

  private put(lease: Lease): void {
    this.entries.get(lease.key)?.cancelExpiry();
    const entry = { lease, revision: ++this.revision, cancelExpiry: () => undefined };
    this.entries.set(lease.key, entry);
    this.arm(entry);
    this.notify({ key: lease.key, revision: entry.revision, value: lease.value });
  }

  private arm(entry: Entry): void {
    entry.cancelExpiry = this.time.after(this.ttlMs, () => this.remove(entry.lease.key));
  }

  private remove(key: string, how: Pick<LeaseChange, "released"> = {}): void {
    this.entries.get(key)?.cancelExpiry();
    this.entries.delete(key);
    this.notify({ key, revision: ++this.revision, value: undefined, ...how });
  }

  private notify(change: LeaseChange): void {
    for (const watcher of this.watchers) watcher(change);
  }
}
