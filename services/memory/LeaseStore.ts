/**
 * The leases of a `MemoryBroker`. Every change has the next revision; a claim's revision is its
 * epoch, so epochs grow for ever. Expiry is a timer, restarted by each renewal and standing still while the
 * broker is stopped.
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
  private readonly time: TimeShape;
  private readonly ttlMs: number;
  private readonly entries = new Map<string, Entry>();
  private readonly watchers = new Set<(change: LeaseChange) => void>();
  private revision = 0;

  constructor(time: TimeShape, ttlMs: number) {
    this.time = time;
    this.ttlMs = ttlMs;
  }

  /** Undefined: held. */
  claim(key: string, value: string): Lease | undefined {
    if (this.entries.has(key)) return undefined;
    const lease = { key, value, epoch: (this.revision + 1) as Epoch };
    this.put(lease);
    return lease;
  }

  /** False: it is not the key's lease any more. */
  renew(lease: Lease, value: string): boolean {
    const entry = this.entries.get(lease.key);
    if (entry === undefined || entry.lease.epoch !== lease.epoch) return false;
    this.put({ ...lease, value });
    return true;
  }

  release(lease: Lease): void {
    if (this.entries.get(lease.key)?.lease.epoch === lease.epoch)
      this.remove(lease.key, { released: true });
  }

  /** Every lease with this value runs out now: its holder is gone, and its time is over. */
  expire(value: string): void {
    for (const [key, { lease }] of this.entries) if (lease.value === value) this.remove(key);
  }

  /** This very lease is gone, though it is neither released nor over: a broker may lose one that it has acknowledged. */
  wipe(key: string, epoch: number): boolean {
    if (this.entries.get(key)?.lease.epoch !== epoch) return false;
    this.remove(key);
    return true;
  }

  /** Live leases with the revision that they have now. */
  live(): ReadonlyArray<{ readonly lease: Lease; readonly revision: number }> {
    return [...this.entries.values()].map(({ lease, revision }) => ({ lease, revision }));
  }

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
    this.tell({ key: lease.key, revision: entry.revision, value: lease.value });
  }

  private arm(entry: Entry): void {
    entry.cancelExpiry = this.time.after(this.ttlMs, () => this.remove(entry.lease.key));
  }

  private remove(key: string, how: Pick<LeaseChange, "released"> = {}): void {
    this.entries.get(key)?.cancelExpiry();
    this.entries.delete(key);
    this.tell({ key, revision: ++this.revision, value: undefined, ...how });
  }

  private tell(change: LeaseChange): void {
    for (const watcher of this.watchers) watcher(change);
  }
}
