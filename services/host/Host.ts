/**
 * The host process's heart: which shards it owns. Claims leases up to its fair share, renews them,
 * hands the excess over when a host joins, takes over when one is gone, and gives all back when it
 * stops. Agents run in `Shard` and `AgentSlot`.
 *
 * 1. A shard's agents run here only between a claim and its loss, and only one `Shard` per claim.
 * 2. Every lease is renewed at a third of its TTL; one whose renewal fails or is late past the margin is
 *    treated as lost by the local clock, before its expiry can be seen by anyone else.
 * 3. Fair share: what `fairShare` says; nobody keeps two more than another has.
 * 4. A host that stops gives its own lease up first: others take each of its shards as it is released.
 *    It claims nothing from then on, and what it was claiming it gives back.
 * 5. Who owns a shard is never remembered: it follows from the leases that this host has claimed and not lost (`owned`) and from what
 *    the watch says (`view`), by `shardOwner`. A shard without a live lease is offered again with the watch's news of
 *    its end, and with each renewal, whatever the order in which acks, renewals and news arrive. The watch names nobody for a lease that
 *    was not renewed for two TTLs, so no shard is without an offer for longer.
 */
import * as Effect from "effect/Effect";
import type * as Scope from "effect/Scope";
import type { ShardId } from "../../schemas/Address.ts";
import type { Lease, LeaseChange } from "../../core/lease/Leases.ts";
import { keyOfShard, LeaseView, shardOfKey, shardOwner } from "../../core/lease/LeaseView.ts";
import { UnownedShards } from "../../core/lease/UnownedShards.ts";
import { Breather } from "./Breather.ts";
import { fairShare } from "./fairShare.ts";
import type { HostServices } from "./HostServices.ts";
import { idleLimitMs } from "./idleLimit.ts";
import { serveErasures } from "./serveErasures.ts";
import { serveStateRequests } from "./serveStateRequests.ts";
import { LEASE_MARGIN, Shard } from "./Shard.ts";

/** Agents leave memory at most this much later than they may. */
const SWEEP_MS_DEFAULT = 1000;
/** 5,000 agents a second, which is more than one process wakes, take 40 MB in this time. */
const MEMORY_LOOK_MS = 100;
/** A healthy broker takes a snapshot in milliseconds; the shards have their next owners already. */
const SNAPSHOTS_WAIT_MS = 2_000;
/** Shards started at once: each is five requests to the broker, one after the other; a dead host's come all at once. */
const CLAIMS_AT_ONCE = 32;
/** Shards handed over at once while the host goes on: one that has a slow turn must not keep the others. */
const HAND_OVERS_AT_ONCE = 8;

export class Host {
  private readonly services: HostServices;
  /** Rule 5: claimed here, and not lost. */
  private readonly owned = new Map<ShardId, Shard>();
  /** Those of `owned` that are being handed over. */
  private readonly leaving = new Map<ShardId, Promise<void>>();
  /** Rule 5: written by the watch alone. */
  private readonly view = new LeaseView();
  /** Free by what is known here, and not to be had. Asked for again with the next renewal, or when the watch has news of them. */
  private readonly refused = new Set<ShardId>();
  private readonly unowned: UnownedShards;
  private hostLease: Lease | undefined;
  private hostRenewal: Promise<void> | undefined;
  private stopping = false;
  /** Shards that are being claimed, and those of them that are being started. */
  private readonly claiming = new Map<ShardId, Promise<void>>();
  private sweeping: Promise<void> | undefined;
  private readonly timers = new Set<() => void>();
  private readonly watching = new AbortController();
  private readonly breather: Breather;

  private constructor(services: HostServices) {
    this.services = services;
    this.breather = new Breather(services.time);
    this.unowned = new UnownedShards(services.config.shards, services.time.monotonicMs());
  }

  /** Runs until the scope closes; then hands everything over within the drain timeout. */
  static make(services: HostServices): Effect.Effect<Host, never, Scope.Scope> {
    return Effect.acquireRelease(
      Effect.promise(async () => {
        const host = new Host(services);
        await host.start();
        return host;
      }),
      (host) => Effect.promise(() => host.stop()),
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

  /** Owns its fair share, or everything there is to own. */
  get ready(): boolean {
    return this.hostLease !== undefined && this.shardsUnowned === 0;
  }

  /** Shards that nobody owns, as far as this host knows. */
  get shardsUnowned(): number {
    this.owners();
    return this.unowned.count;
  }

  /** Those of them that have had no owner for longer than a take-over takes. */
  get shardsOverdue(): number {
    this.owners();
    return this.unowned.overdue(this.services.time.monotonicMs(), this.services.leases.ttlMs);
  }

  /** The module was replaced: agents go on with its classes from their next turn. */
  async recycle(): Promise<void> {
    await Promise.all([...this.owned.values()].map((shard) => shard.recycle()));
  }

  private async start(): Promise<void> {
    const { leases, bus, config } = this.services;
    await leases.watch((change) => this.changed(change), this.watching.signal);
    this.timers.add(serveStateRequests(this.services));
    this.timers.add(serveErasures(this.services));
    this.timers.add(bus.onReconnected(() => this.tellStates()));
    await this.renewAll();
    this.every(leases.ttlMs / 3, () => this.renewAll());
    this.every(config.sweepMs ?? SWEEP_MS_DEFAULT, () => this.sweep());
    const { memoryInUse } = this.services;
    if (memoryInUse !== undefined)
      this.every(MEMORY_LOOK_MS, async () => {
        if (idleLimitMs(memoryInUse()) < Infinity) await this.sweep();
      });
    this.services.log.info("host started", {
      host: config.hostId,
      shards: config.shards,
      connected: bus.connected(),
    });
    this.balance();
  }

  /** What was on its way to gateways when the connection broke is lost. */
  private tellStates(): void {
    for (const shard of this.owned.values()) shard.tellStates();
  }

  /** One at a time. */
  private sweep(): Promise<void> {
    const all = async (): Promise<void> => {
      for (const shard of this.owned.values()) await shard.sweep(this.breather);
    };
    return (this.sweeping ??= all().finally(() => (this.sweeping = undefined)));
  }

  private async stop(): Promise<void> {
    this.stopping = true;
    const { log, config } = this.services;
    // Rule 4.
    await this.releaseHost();
    await this.handAllOver();
    await Promise.all(this.claiming.values());
    await this.handAllOver();
    await this.snapshotsStored();
    this.watching.abort();
    for (const cancel of this.timers) cancel();
    log.info("host stopped", { host: config.hostId });
  }

  private async handAllOver(): Promise<void> {
    await Promise.all([...this.owned.keys()].map((shard) => this.handOver(shard)));
  }

  /** Agents that left have snapshots on their way; without them the next owner replays more, no worse. */
  private async snapshotsStored(): Promise<void> {
    const { storing, time } = this.services;
    if (storing.size === 0) return;
    let cancel = (): void => undefined;
    const late = new Promise<void>((resolve) => (cancel = time.after(SNAPSHOTS_WAIT_MS, resolve)));
    await Promise.race([Promise.all(storing), late]);
    cancel();
  }

  private every(ms: number, f: () => Promise<void>): void {
    const failed = (error: unknown): void =>
      this.services.log.error("a host's regular work failed; it goes on", {
        error: error instanceof Error ? error.stack : String(error),
      });
    let cancel = (): void => undefined;
    const again = (): void => {
      this.timers.delete(cancel);
      cancel = this.services.time.after(ms, () => void f().catch(failed).finally(again));
      this.timers.add(cancel);
    };
    if (!this.watching.signal.aborted) again();
  }

  // Leases

  private changed(change: LeaseChange): void {
    const { key, value } = change;
    const { calls, config } = this.services;
    const before = this.view.heard(change);
    calls?.leaseChanged(change, before);
    if (value === undefined && before !== undefined && key.startsWith("gateway."))
      for (const shard of this.owned.values()) shard.gatewayGone(key.slice("gateway.".length));
    const shard = shardOfKey(key);
    const own = shard === undefined ? undefined : this.owned.get(shard);
    // Somebody else's claim, or the end of ours: the watch may know before our renewal does.
    if (own !== undefined && this.ownerOf(own.shard) !== config.hostId) this.lose(own, "taken");
    // The same of this host's own lease, which is missed by all others.
    if (value === undefined && key === `host.${config.hostId}` && !this.stopping)
      void this.renewHost().then(() => this.balance());
    if (value === before) return;
    if (shard !== undefined) this.refused.delete(shard);
    this.balance();
  }

  private async renewAll(): Promise<void> {
    await Promise.all([this.renewHost(), ...[...this.owned.values()].map((s) => this.renew(s))]);
    // Whoever held them may have been gone already, as the watch had said before: then nothing more is heard of it.
    this.refused.clear();
    this.balance();
  }

  /** One at a time: a second claim would find the first one's lease. */
  private renewHost(): Promise<void> {
    return (this.hostRenewal ??= this.renewHostOnce().finally(
      () => (this.hostRenewal = undefined),
    ));
  }

  private async renewHostOnce(): Promise<void> {
    const { leases, config, log } = this.services;
    try {
      if (this.hostLease && (await leases.renew(this.hostLease))._tag === "Renewed") return;
      this.hostLease = undefined;
      if (this.stopping) return;
      const claim = await leases.claim(`host.${config.hostId}`, config.hostId);
      this.hostLease = claim._tag === "Claimed" ? claim.lease : undefined;
      if (this.stopping) await this.releaseHost();
    } catch (error) {
      log.warn("the host's own lease could not be renewed", { error: String(error) });
    }
  }

  /** One that can't be released now runs out by itself. */
  private async releaseHost(): Promise<void> {
    const lease = this.hostLease;
    this.hostLease = undefined;
    if (lease) await this.services.leases.release(lease).catch(() => undefined);
  }

  private async renew(shard: Shard): Promise<void> {
    const { leases, time } = this.services;
    const startMs = time.monotonicMs();
    try {
      const result = await leases.renew(shard.lease);
      if (result._tag === "Lost") this.lose(shard, "lost");
      else shard.validUntilMs = startMs + leases.ttlMs * (1 - LEASE_MARGIN);
    } catch (error) {
      // The broker is away: rule 2 decides by the clock.
      if (time.monotonicMs() >= shard.validUntilMs) this.lose(shard, String(error));
    }
  }

  /** Nothing where it is lost already: the shard may have been claimed again since. */
  private lose(shard: Shard, why: string): void {
    if (this.owned.get(shard.shard) !== shard) return;
    this.owned.delete(shard.shard);
    shard.drop();
    this.services.log.warn("shard lost", { shard: shard.shard, why });
  }

  // Balance

  /** Rule 5. */
  private ownerOf(shard: ShardId, lease = this.owned.get(shard)?.lease): string | undefined {
    const { hostId } = this.services.config;
    return shardOwner({ self: hostId, lease, watched: this.view.ofShard(shard) });
  }

  /** Of each shard, by its number. */
  private owners(): ReadonlyArray<string | undefined> {
    const { time, config } = this.services;
    const nowMs = time.monotonicMs();
    return Array.from({ length: config.shards }, (_, n) => {
      const owner = this.ownerOf(n as ShardId);
      this.unowned.note(n as ShardId, owner !== undefined, nowMs);
      return owner;
    });
  }

  private share(owners: ReadonlyArray<string | undefined>): number {
    const { shards, hostId } = this.services.config;
    const isLeaving = (owner: string, n: number): boolean =>
      owner === hostId && this.leaving.has(n as ShardId);
    const holders = owners.filter(
      (owner, n): owner is string => owner !== undefined && !isLeaving(owner, n),
    );
    return fairShare({ shards, self: hostId, hosts: this.view.live("host."), holders });
  }

  /** Begins what brings this host nearer to its share; called again whenever something has changed. */
  private balance(): void {
    const owners = this.owners();
    if (this.stopping || this.hostLease === undefined) return;
    const staying = [...this.owned.keys()].filter((shard) => !this.leaving.has(shard));
    const share = this.share(owners);
    const excess = Math.min(staying.length - share, HAND_OVERS_AT_ONCE - this.leaving.size);
    for (const shard of staying.slice(0, Math.max(0, excess)))
      void this.handOver(shard).then(() => this.balance());
    const free = owners
      .flatMap((owner, n) => (owner === undefined ? [n as ShardId] : []))
      .filter((shard) => !this.claiming.has(shard) && !this.refused.has(shard));
    const coming = [...this.claiming.keys()].filter((shard) => !this.owned.has(shard)).length;
    const wanted = Math.min(
      share - staying.length - coming,
      CLAIMS_AT_ONCE - this.claiming.size,
      free.length,
    );
    // From a random place on, so that hosts that start together seldom ask for the same shard.
    const from = Math.floor(this.services.time.random() * free.length);
    for (let n = 0; n < wanted; n++) this.beginClaim(free[(from + n) % free.length]!);
  }

  private beginClaim(shard: ShardId): void {
    const claimed = this.claim(shard).then(
      () => {
        this.claiming.delete(shard);
        this.balance();
      },
      (error: unknown) => {
        // Tried again with the next renewal, or when something changes.
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
    if (claim._tag === "Held") return void this.refused.add(shard);
    // Rule 4.
    if (this.stopping) return leases.release(claim.lease);
    // The watch may be quicker than the ack, and know that this lease is over.
    if (this.ownerOf(shard, claim.lease) !== config.hostId) {
      log.warn("a claimed shard was lost before its claim was acked", { shard });
      this.refused.add(shard);
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
      await owned.start([...this.view.live("gateway.")]);
      log.debug("shard claimed", { shard, epoch: claim.lease.epoch });
    } catch (error) {
      log.warn("a claimed shard could not be started", { shard, error: String(error) });
      if (this.owned.get(shard) === owned) this.owned.delete(shard);
      owned.drop();
      await leases.release(claim.lease);
    }
  }

  /** Resolves when the shard is another's to take; one hand-over of it at a time. Never rejects. */
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
    await owned.handOver(this.breather).catch((error: unknown) => {
      const { log } = this.services;
      log.warn("a shard was not handed over in order", {
        shard: owned.shard,
        error: String(error),
      });
      owned.drop();
    });
    if (this.owned.get(owned.shard) === owned) this.owned.delete(owned.shard);
    // When the release can't be stored the lease runs out by itself.
    await this.services.leases.release(owned.lease).catch(() => undefined);
  }
}
