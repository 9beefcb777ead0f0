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
 */
import * as Effect from "effect/Effect";
import type * as Scope from "effect/Scope";
import type { ShardId } from "../../schemas/Address.ts";
import type { Lease, LeaseChange } from "../../core/lease/Leases.ts";
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
/** Holder of a lease that could not be claimed and of which the watch has not told. */
const UNNAMED = "";
/** Shards handed over at once while the host goes on: one that has a slow turn must not keep the others. */
const HAND_OVERS_AT_ONCE = 8;

export class Host {
  private readonly services: HostServices;
  private readonly owned = new Map<ShardId, Shard>();
  /** Those of `owned` that are being handed over. */
  private readonly leaving = new Map<ShardId, Promise<void>>();
  /** Holder of each live `shard.<n>`; `host.<id>` and `gateway.<id>` keys that live. */
  private readonly holders = new Map<string, string>();
  private hostLease: Lease | undefined;
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
    return this.hostLease !== undefined && this.holders.size > 0 && this.shardsFree().length === 0;
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
    const { key, value, revision } = change;
    const before = this.holders.get(key);
    this.services.calls?.leaseChanged(change, before);
    const own = this.owned.get(shardOfKey(key));
    // News from before our claim, which was quicker than the watch.
    if (own !== undefined && revision < own.lease.epoch) return;
    if (value === undefined) this.holders.delete(key);
    else this.holders.set(key, value);
    if (value === undefined && key.startsWith("gateway.") && before !== undefined)
      for (const shard of this.owned.values()) shard.gatewayGone(key.slice("gateway.".length));
    // Somebody else's claim, or the end of ours: the watch may know before our renewal does.
    if (own !== undefined && value !== this.services.config.hostId) this.lose(own.shard, "taken");
    if (value !== before) this.balance();
  }

  private async renewAll(): Promise<void> {
    await Promise.all([this.renewHost(), ...[...this.owned.values()].map((s) => this.renew(s))]);
    // Whoever held it may have been gone already, as the watch had said before: then nothing more is heard of it.
    for (const [key, value] of this.holders) if (value === UNNAMED) this.holders.delete(key);
    this.balance();
  }

  private async renewHost(): Promise<void> {
    const { leases, config, log } = this.services;
    const key = `host.${config.hostId}`;
    try {
      if (this.hostLease && (await leases.renew(this.hostLease))._tag === "Renewed") return;
      if (this.stopping) return;
      const claim = await leases.claim(key, config.hostId);
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
      if (result._tag === "Lost") this.lose(shard.shard, "lost");
      else shard.validUntilMs = startMs + leases.ttlMs * (1 - LEASE_MARGIN);
    } catch (error) {
      // The broker is away: rule 2 decides by the clock.
      if (time.monotonicMs() >= shard.validUntilMs) this.lose(shard.shard, String(error));
    }
  }

  private lose(shard: ShardId, why: string): void {
    const owned = this.owned.get(shard);
    if (owned === undefined) return;
    this.owned.delete(shard);
    owned.drop();
    this.services.log.warn("shard lost", { shard, why });
  }

  // Balance

  private share(): number {
    const { shards, hostId } = this.services.config;
    const hosts: string[] = [];
    const holders: string[] = [];
    for (const [key, value] of this.holders)
      if (key.startsWith("host.")) hosts.push(value);
      else if (key.startsWith("shard.") && value !== hostId) holders.push(value);
    // Of our own we know more than the watch does.
    for (let left = this.owned.size - this.leaving.size; left > 0; left--) holders.push(hostId);
    return fairShare({ shards, self: hostId, hosts, holders });
  }

  private gateways(): string[] {
    return [...this.holders.keys()]
      .filter((key) => key.startsWith("gateway."))
      .map((key) => key.slice("gateway.".length));
  }

  private shardsFree(): ShardId[] {
    const free: ShardId[] = [];
    for (let n = 0; n < this.services.config.shards; n++)
      if (!this.holders.has(`shard.${n}`) && !this.owned.has(n as ShardId)) free.push(n as ShardId);
    return free;
  }

  /** Begins what brings this host nearer to its share; called again whenever something has changed. */
  private balance(): void {
    if (this.stopping || this.hostLease === undefined) return;
    const staying = [...this.owned.keys()].filter((shard) => !this.leaving.has(shard));
    const share = this.share();
    const excess = Math.min(staying.length - share, HAND_OVERS_AT_ONCE - this.leaving.size);
    for (const shard of staying.slice(0, Math.max(0, excess)))
      void this.handOver(shard).then(() => this.balance());
    const free = this.shardsFree().filter((shard) => !this.claiming.has(shard));
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
    const key = `shard.${shard}`;
    const startMs = time.monotonicMs();
    const claim = await leases.claim(key, config.hostId);
    if (claim._tag === "Held") {
      // Somebody's, whom the watch will name; asked again with the next renewal.
      if (!this.holders.has(key)) this.holders.set(key, UNNAMED);
      return;
    }
    // Rule 4.
    if (this.stopping) return leases.release(claim.lease);
    this.holders.set(key, config.hostId);
    const owned = new Shard(
      this.services,
      shard,
      claim.lease,
      startMs + leases.ttlMs * (1 - LEASE_MARGIN),
    );
    this.owned.set(shard, owned);
    try {
      await owned.start(this.gateways());
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

/** The shard of a `shard.<n>` key; NaN for other keys, which is no shard. */
const shardOfKey = (key: string): ShardId =>
  (key.startsWith("shard.") ? Number(key.slice("shard.".length)) : NaN) as ShardId;
