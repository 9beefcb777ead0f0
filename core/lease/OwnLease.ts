/**
 * The lease that a process holds on its own key (`host.<id>`, `gateway.<id>`), by which the others
 * know that it lives. `Host` and `Gateway` renew it at a third of the TTL, and at once when the
 * watch reports its end.
 *
 * 1. One renewal runs at a time. A second claim would find the lease of the first and be refused.
 * 2. The next renewal claims a lost lease again.
 * 3. After `release` nothing is claimed. A claim that is already on its way is released when its
 *    ack arrives.
 */
import type { LogShape } from "../telemetry/Log.ts";
import type { TimeShape } from "../time/Time.ts";
import type { Lease, LeasesShape } from "./Leases.ts";

interface OwnLeaseOptions {
  readonly leases: Pick<LeasesShape, "claim" | "renew" | "release" | "ttlMs">;
  readonly log: Pick<LogShape, "warn">;
  readonly time: Pick<TimeShape, "monotonicMs">;
  readonly key: string;
  readonly value: string;
  /** Called after every claim, the first included; not after a renewal. */
  readonly onClaimed?: () => void;
}

/** The broker does not store a lease. */
export interface LeaseFailure {
  /** Since the last renewal that was stored. */
  readonly forMs: number;
  /** What the last attempt failed with. `NotPermitted`: the login may not store it. */
  readonly reason: unknown;
}

export class OwnLease {
  private lease: Lease | undefined;
  private renewal: Promise<void> | undefined;
  private released = false;
  /** When the last renewal that was stored began, by the monotonic clock. */
  private renewedMs: number;
  private reason: unknown = "no answer yet";

  constructor(private readonly options: OwnLeaseOptions) {
    this.renewedMs = options.time.monotonicMs();
  }

  get key(): string {
    return this.options.key;
  }

  /** Whether the lease was held at the last renewal. */
  get isHeld(): boolean {
    return this.lease !== undefined;
  }

  /** Undefined while renewals are stored within the TTL. An attempt may take several of them. */
  get failure(): LeaseFailure | undefined {
    const { leases, time } = this.options;
    const forMs = time.monotonicMs() - this.renewedMs;
    return forMs > leases.ttlMs ? { forMs, reason: this.reason } : undefined;
  }

  /** Renews the lease, or claims it when there is none. Never rejects: a failure is logged. */
  renew(): Promise<void> {
    // Rule 1.
    return (this.renewal ??= this.renewOnce().finally(() => (this.renewal = undefined)));
  }

  /** Rule 3. Never rejects: a lease that cannot be released expires. */
  async release(): Promise<void> {
    this.released = true;
    const { lease } = this;
    this.lease = undefined;
    if (lease !== undefined) await this.options.leases.release(lease).catch(() => undefined);
  }

  private async renewOnce(): Promise<void> {
    const { key, log, time } = this.options;
    const startMs = time.monotonicMs();
    try {
      await this.renewOrClaim();
      this.renewedMs = startMs;
    } catch (error) {
      this.reason = error;
      log.warn("a process's own lease could not be renewed", { key, error: String(error) });
    }
  }

  private async renewOrClaim(): Promise<void> {
    const { leases, key, value, onClaimed } = this.options;
    if (this.lease && (await leases.renew(this.lease))._tag === "Renewed") return;
    // Rule 2.
    this.lease = undefined;
    if (this.released) return;
    const claim = await leases.claim(key, value);
    if (claim._tag !== "Claimed") return;
    this.lease = claim.lease;
    if (this.released) await this.release();
    else onClaimed?.();
  }
}
