/**
 * The host process's heart: which shards it owns. Claims leases up to its fair share, renews them,
 * hands the excess over when a host joins, takes over when one is gone, and gives all back when it
 * stops. Agents run in `Shard` and `AgentSlot`.
 *
 * 1. A shard's agents run here only between a claim and its loss, and only one `Shard` per claim.
 * 2. Every lease is renewed at a third of its TTL; one whose renewal fails or is late past the margin is
 *    treated as lost by the local clock, before its expiry can be seen by anyone else.
 * 3. Fair share: `ceil(shards / hosts)`; nobody keeps more while another has less.
 */
import * as Effect from "effect/Effect";
import type * as Scope from "effect/Scope";
import type { ShardId } from "../../schemas/Address.ts";
import type { Lease, LeaseChange } from "../../core/lease/Leases.ts";
import { Breather } from "./Breather.ts";
import type { HostServices } from "./HostServices.ts";
import { serveErasures } from "./serveErasures.ts";
import { serveStateRequests } from "./serveStateRequests.ts";
import { Shard } from "./Shard.ts";

/** Part of the TTL by which a lease counts as lost before it expires: clocks' rates and delays. */
const LEASE_MARGIN = 0.2;
/** Agents leave memory at most this much later than they may. */
const SWEEP_MS_DEFAULT = 1000;
/** A healthy broker takes a snapshot in milliseconds; the shards have their next owners already. */
const SNAPSHOTS_WAIT_MS = 2_000;
/** Shards started at once: each is a few requests to the broker. */
const CLAIMS_AT_ONCE = 8;

export class Host {
  private readonly services: HostServices;
  private readonly owned = new Map<ShardId, Shard>();
  /** Holder of each live `shard.<n>`; `host.<id>` and `gateway.<id>` keys that live. */
  private readonly holders = new Map<string, string>();
  private hostLease: Lease | undefined;
  private stopping = false;
  private balancing = false;
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
    await this.renewAll();
    this.every(leases.ttlMs / 3, () => this.renewAll());
    this.every(config.sweepMs ?? SWEEP_MS_DEFAULT, async () => {
      for (const shard of this.owned.values()) await shard.sweep(this.breather);
    });
    this.services.log.info("host started", {
      host: config.hostId,
      shards: config.shards,
      connected: bus.connected(),
    });
    this.balance();
  }

  private async stop(): Promise<void> {
    this.stopping = true;
    const { leases, log, config } = this.services;
    await Promise.all([...this.owned.keys()].map((shard) => this.handOver(shard)));
    await this.snapshotsStored();
    this.watching.abort();
    for (const cancel of this.timers) cancel();
    if (this.hostLease) await leases.release(this.hostLease).catch(() => undefined);
    log.info("host stopped", { host: config.hostId });
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
    let cancel = (): void => undefined;
    const again = (): void => {
      this.timers.delete(cancel);
      cancel = this.services.time.after(ms, () => void f().finally(again));
      this.timers.add(cancel);
    };
    if (!this.watching.signal.aborted) again();
  }

  // Leases

  private changed({ key, value, revision }: LeaseChange): void {
    const before = this.holders.get(key);
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
    this.balance();
  }

  private async renewHost(): Promise<void> {
    const { leases, config, log } = this.services;
    const key = `host.${config.hostId}`;
    try {
      if (this.hostLease && (await leases.renew(this.hostLease))._tag === "Renewed") return;
      const claim = await leases.claim(key, config.hostId);
      this.hostLease = claim._tag === "Claimed" ? claim.lease : undefined;
    } catch (error) {
      log.warn("the host's own lease could not be renewed", { error: String(error) });
    }
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

  private hosts(): number {
    let count = 0;
    for (const key of this.holders.keys()) if (key.startsWith("host.")) count++;
    return Math.max(1, count);
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

  private balance(): void {
    if (this.balancing || this.stopping || this.hostLease === undefined) return;
    this.balancing = true;
    this.rebalance()
      .catch((error: unknown) =>
        this.services.log.warn("shards could not be balanced; trying again", {
          error: String(error),
        }),
      )
      .finally(() => (this.balancing = false));
  }

  private async rebalance(): Promise<void> {
    const { config, time } = this.services;
    for (;;) {
      if (this.stopping) return;
      const share = Math.ceil(config.shards / this.hosts());
      if (this.owned.size > share) {
        const [excess] = this.owned.keys();
        await this.handOver(excess!);
        continue;
      }
      // From a random place on, so that hosts that start together seldom ask for the same shard.
      const free = this.shardsFree();
      const from = Math.floor(time.random() * free.length);
      const wanted = [...free.slice(from), ...free.slice(0, from)].slice(
        0,
        Math.min(share - this.owned.size, CLAIMS_AT_ONCE),
      );
      if (wanted.length === 0) return;
      await Promise.all(wanted.map((shard) => this.claim(shard)));
    }
  }

  private async claim(shard: ShardId): Promise<void> {
    const { leases, config, time, log } = this.services;
    const key = `shard.${shard}`;
    const startMs = time.monotonicMs();
    const claim = await leases.claim(key, config.hostId);
    if (claim._tag === "Held") {
      // Ours to see soon by the watch; until then it is somebody's.
      if (!this.holders.has(key)) this.holders.set(key, "");
      return;
    }
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

  private async handOver(shard: ShardId): Promise<void> {
    const owned = this.owned.get(shard);
    if (owned === undefined) return;
    await owned.handOver(this.breather);
    this.owned.delete(shard);
    // When the release can't be stored the lease runs out by itself.
    await this.services.leases.release(owned.lease).catch(() => undefined);
  }
}

/** The shard of a `shard.<n>` key; NaN for other keys, which is no shard. */
const shardOfKey = (key: string): ShardId =>
  (key.startsWith("shard.") ? Number(key.slice("shard.".length)) : NaN) as ShardId;
