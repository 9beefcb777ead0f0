/**
 * The lease port: exclusive, expiring claims on keys (`shard.<n>`, `host.<id>`, `gateway.<id>`).
 *
 * 1. At most one holder of a key at a time by the store's clock; a claim is a compare-and-set.
 * 2. `epoch` strictly increases over all claims of a key, for ever.
 * 3. A lease that is not renewed for `ttlMs` expires, and watchers are notified.
 * 4. A lease is advice: safety rests on the journal's compare-and-set, never on this.
 *
 * Adapters: `services/nats/NatsLeases` (KV bucket TTL with expiry markers),
 * `services/memory/MemoryLeases`.
 */
import * as Context from "effect/Context";
import type { Epoch } from "../../schemas/Address.ts";

export interface Lease {
  readonly key: string;
  /** Who holds it: any short string, usually a host id, or JSON about the holder. */
  readonly value: string;
  /** Revision of the claim that created it; renewals keep it. */
  readonly epoch: Epoch;
}

export type ClaimResult =
  { readonly _tag: "Claimed"; readonly lease: Lease } | { readonly _tag: "Held" };

export type RenewResult = { readonly _tag: "Renewed" } | { readonly _tag: "Lost" };

/** `value` undefined: released or expired. */
export interface LeaseChange {
  readonly key: string;
  /** Orders changes of a key, and against `Lease.epoch`: one with a smaller one is of the past. */
  readonly revision: number;
  readonly value: string | undefined;
  /** Its holder released it. Absent when it expired, or that is not known (a watch that healed). */
  readonly released?: true;
}

export interface LeasesShape {
  /** Milliseconds without renewal after which a lease expires. */
  readonly ttlMs: number;
  /** Rejects with `BrokerUnavailable`. */
  readonly claim: (key: string, value: string) => Promise<ClaimResult>;
  /**
   * `value` replaces the lease's value when given. `Lost`: expired or taken over. Rejects with
   * `BrokerUnavailable`.
   */
  readonly renew: (lease: Lease, value?: string) => Promise<RenewResult>;
  /**
   * Replaces a lease of this process by a new claim of the same key, with a new epoch, in one
   * compare-and-set: at no time is the key free. `Held`: the lease was lost before. Rejects with
   * `BrokerUnavailable`.
   */
  readonly supersede: (lease: Lease, value: string) => Promise<ClaimResult>;
  /** Frees it at once, if still held. */
  readonly release: (lease: Lease) => Promise<void>;
  /**
   * Every live lease now (then it resolves), then each change until `signal` fires. Heals itself
   * across broker restarts (after which it repeats what it may have missed). A renewal is no
   * change. Rejects with `NotPermitted` if this process may not watch leases.
   */
  readonly watch: (onChange: (change: LeaseChange) => void, signal: AbortSignal) => Promise<void>;
  /** Live leases whose key starts with `prefix`. Rejects with `BrokerUnavailable`. */
  readonly list: (prefix: string) => Promise<ReadonlyArray<Lease>>;
}

export class Leases extends Context.Service<Leases, LeasesShape>()("agents/core/lease/Leases") {}
