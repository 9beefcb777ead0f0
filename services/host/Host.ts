/**
 * The shards that a host process owns. Claims leases up to the host's fair share, renews them,
 * hands the excess over when a host joins, takes over when one is gone, and releases all of them
 * when the host stops. Agents run in `Shard` and `AgentSlot`.
 *
 * 1. A shard's agents run here only between a claim and its loss, with one `Shard` per claim.
 * 2. Every lease is renewed at a third of its TTL. A lease whose renewal fails, or is late past the
 *    margin, counts as lost by the local clock, before any other process can see it expire.
 * 3. `fairShare` decides how many shards a host aims for. At rest no host has two more than
 *    another.
 * 4. A host that stops releases its own lease first: others take each of its shards as soon as it
 *    is released. From then on it claims nothing, and releases what it was claiming.
 * 5. A shard's owner is never stored. `shardOwner` derives it from the leases that this host has
 *    claimed and not lost (`owned`) and from what the watch reports (`view`). A shard without a
 *    live lease is up for a claim when the watch reports its end and at each renewal, in whatever
 *    order acks, renewals and reports arrive. The watch reports no holder for a lease that was not
 *    renewed for two TTLs, so no shard stays unclaimed for longer.
 */
import * as Effect from "effect/Effect";
import type * as Scope from "effect/Scope";
import type { ShardId } from "../../schemas/Address.ts";
import type { LeaseChange } from "../../core/lease/Leases.ts";
import {
  GATEWAY_KEYS,
  HOST_KEYS,
  idOfKey,
  keyOfShard,
  shardOfKey,
} from "../../core/lease/leaseKeys.ts";
import { LeaseView, shardOwner } from "../../core/lease/LeaseView.ts";
import { Outage } from "../../core/lease/Outage.ts";
import { OwnLease, type LeaseFailure } from "../../core/lease/OwnLease.ts";
import { UnownedShards } from "../../core/lease/UnownedShards.ts";
import { interval } from "../../core/time/interval.ts";
import { TimeSlices } from "../../core/time/TimeSlices.ts";
import type { HostServices } from "./HostServices.ts";
import { idleLimitMs } from "./load/idleLimit.ts";
import { rebalance } from "./load/rebalance.ts";
import { followIsolation } from "./IsolatedSlot.ts";
import { serveErasures } from "./serveErasures.ts";
import { countStalls } from "./shardUsage.ts";
import { serveStateRequests } from "./serveStateRequests.ts";
import { reasonOf } from "./slotErrors.ts";
import { LEASE_MARGIN, Shard } from "./Shard.ts";
import { settlesWithin } from "../../core/time/settlesWithin.ts";

/** An agent leaves memory at most this much later than its class allows. */
const SWEEP_MS_DEFAULT = 1000;
/** 5,000 wakes a second, more than one process manages, take 40 MB in this time. */
const MEMORY_CHECK_MS = 100;
/** A healthy broker stores a snapshot in milliseconds. The shards have their next owners. */
const SNAPSHOTS_WAIT_MS = 2_000;
export class Host {
  /** Claimed here and not lost (rule 5). */
  private readonly owned = new Map<ShardId, Shard>();
  /** The shards of `owned` that are being handed over. */
  private readonly leaving = new Map<ShardId, Promise<void>>();
  /** Written by the watch alone (rule 5). */
  private readonly view = new LeaseView();
  /**
   * Shards that look free and are not claimed before the next renewal. One whose claim was refused
   * is claimed when the watch reports a change of it, too.
   */
  private readonly passed = new Map<ShardId, "refused" | "notStarted">();
  private readonly unowned: UnownedShards;
  private readonly outage: Outage;
  private readonly ownLease: OwnLease;
  private stopping = false;
  /** Shards that are being claimed, or were claimed and are being started. */
  private readonly claiming = new Map<ShardId, Promise<void>>();
  private sweeping: Promise<void> | undefined;
  private readonly timers = new Set<() => void>();
  private readonly watching = new AbortController();
  /** For hibernation and hand-over, of all shards. */
  private readonly slices: TimeSlices;

  private constructor(private readonly services: HostServices) {
    const { config, leases, log, time } = services;
    this.slices = new TimeSlices(time);
    this.unowned = new UnownedShards(config.shards, time.monotonicMs());
    const { hostId } = config;
    this.outage = new Outage({ host: hostId, log, time });
    this.ownLease = new OwnLease({
      leases,
      log,
      time,
      key: `${HOST_KEYS}${hostId}`,
      value: hostId,
    });
  }

  /** Runs until the scope closes, then hands every shard over within the drain timeout. */
  static make(services: HostServices): Effect.Effect<Host, never, Scope.Scope> {
    return Effect.acquireRelease(
      Effect.promise(async (signal) => {
        const host = new Host(services);
        signal.addEventListener("abort", () => void host.stop());
        await host.start();
        return host;
      }),
      (host) => Effect.promise(() => host.stop()),
      // A broker that answers nothing is waited for.
      { interruptible: true },
    );
  }

  get shardsOwned(): ReadonlyArray<ShardId> {
    return [...this.owned.keys()];
  }

  get agentsActive(): number {
    let count = 0;
    for (const shard of this.owned.values()) count += shard.agentsActive;
    return count;
  }

  /** True when the host holds its own lease and every shard has an owner. */
  get ready(): boolean {
    return this.ownLease.isHeld && this.shardsUnowned === 0;
  }

  /** Undefined while the broker stores this host's own lease. */
  get leaseFailure(): LeaseFailure | undefined {
    return this.ownLease.failure;
  }

  /** Number of shards without an owner, as far as this host knows. */
  get shardsUnowned(): number {
    this.owners();
    return this.unowned.count;
  }

  /** Number of shards that have had no owner for longer than a take-over takes. */
  get shardsOverdue(): number {
    this.owners();
    return this.unowned.overdue(this.services.time.monotonicMs(), this.services.leases.ttlMs);
  }

  /** Called when the module was replaced: agents use its classes from their next activation. */
  async recycle(): Promise<void> {
    await Promise.all([...this.owned.values()].map((shard) => shard.recycle()));
  }

  private async start(): Promise<void> {
    const { leases, bus, config, log, memoryInUse } = this.services;
    await leases.watch((change) => this.changed(change), this.watching.signal);
    if (this.stopping) return;
    for (const serve of [followIsolation, countStalls])
      serve(this.services, (shard) => this.owned.get(shard));
    this.timers.add(serveStateRequests(this.services));
    this.timers.add(serveErasures(this.services));
    this.timers.add(bus.onReconnected(() => this.resendStates()));
    await this.renewAll();
    this.every(leases.ttlMs / 3, () => this.renewAll());
    this.every(config.sweepMs ?? SWEEP_MS_DEFAULT, () => this.sweep());
    if (memoryInUse !== undefined)
      this.every(MEMORY_CHECK_MS, async () => {
        if (idleLimitMs(memoryInUse()) < Infinity) await this.sweep();
      });
    const { hostId, shards } = config;
    log.info("host started", { host: hostId, shards, connected: bus.connected() });
    this.balance();
  }

  /** Frames that were on their way to gateways when the connection broke are lost. */
  private resendStates(): void {
    for (const shard of this.owned.values()) shard.resendStates();
  }

  /** One sweep runs at a time; a call during one joins it. */
  private sweep(): Promise<void> {
    const { turnLimits, time } = this.services;
    const all = async (): Promise<void> => {
      turnLimits.expire(time.monotonicMs());
      for (const shard of this.owned.values()) await shard.sweep(this.slices);
    };
    return (this.sweeping ??= all().finally(() => (this.sweeping = undefined)));
  }

  private async stop(): Promise<void> {
    this.stopping = true;
    const { log, config } = this.services;
    // Rule 4.
    await this.ownLease.release();
    await this.handAllOver();
    await Promise.all(this.claiming.values());
    await this.handAllOver();
    await this.awaitSnapshots();
    this.watching.abort();
    for (const cancel of this.timers) cancel();
    log.info("host stopped", { host: config.hostId });
  }

  private async handAllOver(): Promise<void> {
    await Promise.all([...this.owned.keys()].map((shard) => this.handOver(shard)));
  }

  /**
   * Waits for the snapshots of agents that left memory. Without them the next owner replays more
   * events, and loses nothing.
   */
  private async awaitSnapshots(): Promise<void> {
    const { storing, time } = this.services;
    if (storing.size > 0) await settlesWithin(time, SNAPSHOTS_WAIT_MS, Promise.all(storing));
  }

  private every(ms: number, f: () => Promise<void>): void {
    const { log, time } = this.services;
    const failed = (error: unknown): void =>
      log.error("a periodic task of the host failed; it runs again", { error: reasonOf(error) });
    this.timers.add(interval(time, ms, () => f().catch(failed)));
  }

  // Leases

  private changed(change: LeaseChange): void {
    const { key, value } = change;
    const { calls, config } = this.services;
    const before = this.view.heard(change);
    calls?.leaseChanged(change, before);
    const gateway = idOfKey(key, GATEWAY_KEYS);
    if (gateway !== undefined && value === undefined && before !== undefined)
      for (const shard of this.owned.values()) shard.gatewayGone(gateway);
    const shard = shardOfKey(key);
    const own = shard === undefined ? undefined : this.owned.get(shard);
    // Another host's claim, or the end of our lease. The watch may report it before our renewal
    // fails.
    if (own !== undefined && this.ownerOf(own.shard) !== config.hostId) this.lose(own, "taken");
    // The end of this host's own lease: without it the others take its share.
    if (value === undefined && key === this.ownLease.key && !this.stopping)
      void this.ownLease.renew().then(() => this.balance());
    if (value === before) return;
    if (shard !== undefined && this.passed.get(shard) === "refused") this.passed.delete(shard);
    this.balance();
  }

  private async renewAll(): Promise<void> {
    const renewals = [...this.owned.values()].map((shard) => this.renew(shard));
    await Promise.all([this.ownLease.renew(), ...renewals]);
    // The watch may have reported their end before the claim was refused, and reports no more.
    this.passed.clear();
    this.balance();
  }

  private async renew(shard: Shard): Promise<void> {
    const { leases, time } = this.services;
    const startMs = time.monotonicMs();
    try {
      const result = await leases.renew(shard.lease);
      if (result._tag === "Lost") this.lose(shard, "lost");
      else shard.validUntilMs = startMs + leases.ttlMs * (1 - LEASE_MARGIN);
    } catch (error) {
      // The broker is unreachable: the clock decides (rule 2).
      if (time.monotonicMs() >= shard.validUntilMs) this.lose(shard, String(error));
    }
  }

  /** Does nothing when `shard` was lost before: the shard may have been claimed again since. */
  private lose(shard: Shard, why: string): void {
    if (this.owned.get(shard.shard) !== shard) return;
    this.owned.delete(shard.shard);
    shard.drop();
    this.outage.begins();
    const { leases, log } = this.services;
    log.warn("shard lost", { shard: shard.shard, why });
    // Over by this host's clock. A control process would renew it for ever (`LeaseKeeper`, rule 2).
    void leases.release(shard.lease).catch(() => undefined);
  }

  // Balance

  /** The host that owns the shard, or undefined when it is free (rule 5). */
  private ownerOf(shard: ShardId, lease = this.owned.get(shard)?.lease): string | undefined {
    const { hostId } = this.services.config;
    return shardOwner({ self: hostId, lease, watched: this.view.ofShard(shard) });
  }

  /** The owner of each shard, by its number. */
  private owners(): ReadonlyArray<string | undefined> {
    const { time, config } = this.services;
    const nowMs = time.monotonicMs();
    return Array.from({ length: config.shards }, (_, n) => {
      const owner = this.ownerOf(n as ShardId);
      this.unowned.note(n as ShardId, owner !== undefined, nowMs);
      return owner;
    });
  }

  /** Begins claims and hand-overs that bring this host nearer to its share, on every change. */
  private balance(): void {
    const owners = this.owners();
    const { owned, leaving, claiming, passed } = this;
    if (this.stopping || !this.ownLease.isHeld) return;
    if (this.unowned.count + claiming.size === 0) this.outage.ends(owned.size);
    const { config, time } = this.services;
    const { claims, handOvers } = rebalance({
      self: config.hostId,
      hosts: this.view.live(HOST_KEYS),
      owners,
      owned,
      leaving,
      claiming,
      passed,
      random: time.random,
    });
    for (const shard of handOvers) void this.handOver(shard).then(() => this.balance());
    for (const shard of claims) this.beginClaim(shard);
  }

  private beginClaim(shard: ShardId): void {
    const claimed = this.claim(shard).then(
      () => {
        this.claiming.delete(shard);
        this.balance();
      },
      (error: unknown) => {
        // Claimed again at the next renewal or change.
        this.claiming.delete(shard);
        this.services.log.warn("a shard could not be claimed; trying again", {
          shard,
          error: String(error),
        });
      },
    );
    this.claiming.set(shard, claimed);
  }

  private async claim(shard: ShardId): Promise<void> {
    const { leases, config, time, log } = this.services;
    const startMs = time.monotonicMs();
    const claim = await leases.claim(keyOfShard(shard), config.hostId);
    if (claim._tag === "Held") return void this.passed.set(shard, "refused");
    // Rule 4.
    if (this.stopping) return leases.release(claim.lease);
    // The watch may report the end of this lease before the ack of its claim arrives.
    if (this.ownerOf(shard, claim.lease) !== config.hostId) {
      log.warn("a claimed shard was lost before its claim was acked", { shard });
      this.passed.set(shard, "refused");
      return leases.release(claim.lease);
    }
    const owned = new Shard(
      this.services,
      shard,
      claim.lease,
      startMs + leases.ttlMs * (1 - LEASE_MARGIN),
    );
    this.owned.set(shard, owned);
    try {
      await owned.start(() => [...this.view.live(GATEWAY_KEYS)]);
      log.debug("shard claimed", { shard, epoch: claim.lease.epoch });
    } catch (error) {
      const isGivenUp = this.leaving.has(shard) || this.owned.get(shard) !== owned;
      const say = isGivenUp ? log.debug : log.warn;
      say("a claimed shard could not be started", { shard, error: String(error) });
      if (!isGivenUp) this.passed.set(shard, "notStarted");
      if (this.owned.get(shard) === owned) this.owned.delete(shard);
      owned.drop();
      await leases.release(claim.lease);
    }
  }

  /** Resolves when the shard's lease is released. Calls in a hand-over join it. Never rejects. */
  private handOver(shard: ShardId): Promise<void> {
    const owned = this.owned.get(shard);
    if (owned === undefined) return Promise.resolve();
    let going = this.leaving.get(shard);
    if (going === undefined) {
      going = this.leave(owned).finally(() => this.leaving.delete(shard));
      this.leaving.set(shard, going);
    }
    return going;
  }

  private async leave(owned: Shard): Promise<void> {
    await owned.handOver(this.slices).catch((error: unknown) => {
      const { log } = this.services;
      log.warn("a shard could not be handed over", { shard: owned.shard, error: String(error) });
      owned.drop();
    });
    if (this.owned.get(owned.shard) === owned) this.owned.delete(owned.shard);
    // A lease whose release cannot be stored expires.
    await this.services.leases.release(owned.lease).catch(() => undefined);
  }
}
