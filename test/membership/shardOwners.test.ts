/** Who owns a shard, in whatever order a host hears of it: the pure rule, and real hosts. */
import { Effect, Exit, Scope } from "effect";
import { describe, expect, test } from "vitest";
import type { Epoch, ShardId } from "../../schemas/Address.ts";
import type { LeaseChange, LeasesShape } from "../../core/lease/Leases.ts";
import { LeaseView, shardOwner } from "../../core/lease/LeaseView.ts";
import { UnownedShards } from "../../core/lease/UnownedShards.ts";
import { CallClient } from "../../core/call/CallClient.ts";
import { agentMetrics } from "../../core/telemetry/AgentMetrics.ts";
import { noMetrics } from "../../core/telemetry/Metrics.ts";
import { RouteTable } from "../../core/webhook/RouteTable.ts";
import { UnfinishedWork } from "../../core/namespace/UnfinishedWork.ts";
import { Access } from "../../services/gateway/Access.ts";
import { SocketKeeper } from "../../services/gateway/SocketKeeper.ts";
import { Gateway } from "../../services/gateway/Gateway.ts";
import {
  GATEWAY_BOUNDS_DEFAULT,
  type GatewayConfig,
} from "../../services/gateway/GatewayConfig.ts";
import type { GatewayServices } from "../../services/gateway/GatewayServices.ts";
import { Host } from "../../services/host/Host.ts";
import type { HostServices } from "../../services/host/HostServices.ts";
import { makeMemoryBlobs } from "../../services/memory/MemoryBlobs.ts";
import { makeMemoryBus } from "../../services/memory/MemoryBus.ts";
import { MemoryBroker } from "../../services/memory/MemoryBroker.ts";
import { makeMemoryInbox } from "../../services/memory/MemoryInbox.ts";
import { makeMemoryLeases } from "../../services/memory/MemoryLeases.ts";
import { makeMemoryQuarantines } from "../../services/memory/MemoryQuarantines.ts";
import { VirtualTime } from "../../services/memory/VirtualTime.ts";

const TTL_MS = 1_000;
const epochOf = (epoch: number) => ({ epoch: epoch as Epoch });

describe("the owner of a shard", () => {
  const of = (
    lease: { readonly epoch: Epoch } | undefined,
    watched: { readonly value: string | undefined; readonly revision: number } | undefined,
  ) => shardOwner({ self: "a", lease, watched });

  test("is this host while the watch reports nothing newer than its claim", () => {
    expect(of(epochOf(7), undefined)).toBe("a");
    expect(of(epochOf(7), { value: undefined, revision: 6 })).toBe("a");
    expect(of(epochOf(7), { value: "b", revision: 5 })).toBe("a");
    expect(of(epochOf(7), { value: "a", revision: 9 })).toBe("a");
  });

  test("is nobody once the watch reports the end of this host's lease", () => {
    expect(of(epochOf(7), { value: undefined, revision: 7 })).toBeUndefined();
    expect(of(epochOf(7), { value: undefined, revision: 8 })).toBeUndefined();
  });

  test("is the host that the watch names, and nobody if that is this host without a lease", () => {
    expect(of(undefined, { value: "b", revision: 5 })).toBe("b");
    expect(of(epochOf(7), { value: "b", revision: 8 })).toBe("b");
    expect(of(undefined, { value: "a", revision: 5 })).toBeUndefined();
    expect(of(undefined, undefined)).toBeUndefined();
  });
});

test("a view keeps the ends of shards' leases, and forgets processes that have ended", () => {
  const view = new LeaseView();
  const hear = (key: string, value: string | undefined, revision: number) =>
    view.heard({ key, value, revision });
  expect(hear("shard.3", "a", 1)).toBeUndefined();
  expect(hear("shard.3", undefined, 2)).toBe("a");
  expect(view.ofShard(3 as ShardId)).toEqual({ value: undefined, revision: 2 });
  hear("host.a", "a", 3);
  hear("host.b", "b", 4);
  hear("host.a", undefined, 5);
  expect([...view.live("host.")]).toEqual(["b"]);
});

test("a shard is overdue when it has had no owner for two TTLs", () => {
  const unowned = new UnownedShards(2, 0);
  unowned.note(0 as ShardId, true, 100);
  unowned.note(0 as ShardId, false, 500);
  unowned.note(0 as ShardId, false, 900);
  expect([unowned.count, unowned.overdue(2_500, TTL_MS)]).toEqual([2, 1]);
  expect(unowned.overdue(2_501, TTL_MS)).toBe(2);
});

interface Rig {
  readonly broker: MemoryBroker;
  readonly host: Host;
  readonly log: ReadonlyArray<string>;
  /** Lets virtual time pass until it holds, for four TTLs at most. */
  readonly until: (holds: () => boolean) => Promise<boolean>;
}

/** A host alone; `change` puts something between it and its leases. */
async function withHost(
  change: (leases: LeasesShape, broker: MemoryBroker) => Partial<LeasesShape>,
  body: (rig: Rig) => Promise<void>,
  listMarks?: () => Promise<never[]>,
): Promise<void> {
  const time = new VirtualTime();
  const broker = new MemoryBroker({ time, leaseTtlMs: TTL_MS, shards: 2 });
  const connection = broker.connect("host");
  const leases = makeMemoryLeases(connection);
  const log: string[] = [];
  const note = (message: string): void => void log.push(message);
  const services = {
    bus: makeMemoryBus(connection), time, inbox: makeMemoryInbox(connection),
    leases: { ...leases, ...change(leases, broker) },
    log: { debug: note, info: note, warn: note, error: note },
    config: { subjects: broker.subjects, shards: 2, hostId: "a", drainTimeoutMs: TTL_MS },
    module: () => ({ agents: new Map() }),
    storing: new Set(),
    quarantines: { ...makeMemoryQuarantines(connection), ...(listMarks && { list: listMarks }) },
    quarantined: new Set(),
  } as object as HostServices; // prettier-ignore
  const until = async (holds: () => boolean): Promise<boolean> => {
    for (let n = 0; n < 80 && !holds(); n++) await time.advance(TTL_MS / 20);
    return holds();
  };
  const scope = Effect.runSync(Scope.make());
  let host: Host | undefined;
  void Effect.runPromise(Scope.provide(Host.make(services), scope)).then((made) => (host = made));
  await until(() => host !== undefined);
  await body({ broker, host: host!, log, until });
  const closing = Effect.runPromise(Scope.close(scope, Exit.void));
  for (let n = 0; n < 40; n++) await time.advance(TTL_MS / 10);
  await closing;
}

const holderOf = (broker: MemoryBroker, key: string): string | undefined =>
  broker.leases.live().find(({ lease }) => lease.key === key)?.lease.value;

describe("a host whose leases are lost by the broker", () => {
  test("claims a shard again when the watch reports its lease gone before the claim's ack", async () => {
    let wiped = 0;
    await withHost(
      (leases, broker) => ({
        claim: async (key, value) => {
          const claim = await leases.claim(key, value);
          if (claim._tag !== "Claimed" || key !== "shard.1" || wiped++ > 0) return claim;
          broker.leases.wipe(key, claim.lease.epoch);
          // The watch's news of both are told meanwhile.
          await new Promise<void>((resolve) => void broker.time.after(TTL_MS / 4, resolve));
          return claim;
        },
      }),
      async ({ broker, host, log, until }) => {
        expect(await until(() => host.shardsOwned.length === 2 && host.ready)).toBe(true);
        expect(log).toContain("a claimed shard was lost before its claim was acked");
        expect(holderOf(broker, "shard.1")).toBe("a");
      },
    );
  });

  test("stops a shard at the renewal that finds its lease gone, and claims it again, even without the watch", async () => {
    let isDeaf = false;
    await withHost(
      (leases) => ({
        watch: (onChange, signal) =>
          leases.watch((change: LeaseChange) => {
            if (!isDeaf) onChange(change);
          }, signal),
      }),
      async ({ broker, host, log, until }) => {
        await until(() => host.shardsOwned.length === 2);
        isDeaf = true;
        const { lease } = broker.leases.live().find(({ lease: { key } }) => key === "shard.0")!;
        broker.leases.wipe("shard.0", lease.epoch);
        expect(await until(() => log.includes("shard lost"))).toBe(true);
        expect(await until(() => host.shardsOwned.length === 2)).toBe(true);
        const now = broker.leases.live().find(({ lease: { key } }) => key === "shard.0")!;
        expect(now.lease.epoch).toBeGreaterThan(lease.epoch);
      },
    );
  });

  test("keeps a shard that it has claimed again when an older renewal fails late", async () => {
    let late: (() => void) | undefined;
    await withHost(
      (leases, broker) => ({
        renew: async (lease, value) => {
          const result = await leases.renew(lease, value);
          if (lease.key !== "shard.0" || late !== undefined) return result;
          broker.leases.wipe(lease.key, lease.epoch);
          await new Promise<void>((resolve) => (late = resolve));
          return { _tag: "Lost" };
        },
      }),
      async ({ host, log, until }) => {
        await until(() => host.shardsOwned.length === 2);
        expect(await until(() => late !== undefined && log.includes("shard lost"))).toBe(true);
        expect(await until(() => host.shardsOwned.length === 2)).toBe(true);
        late!();
        await until(() => false);
        expect(log.filter((line) => line === "shard lost")).toHaveLength(1);
        expect(host.shardsOwned).toHaveLength(2);
      },
    );
  });

  test("releases a shard whose lease has expired by its own clock, even if a control process still renews it", async () => {
    let away = false;
    await withHost(
      (leases, broker) => ({
        renew: async (lease, value) => {
          if (!away || lease.key !== "shard.0") return leases.renew(lease, value);
          const keep = (): void =>
            void broker.time.after(TTL_MS / 3, () => void leases.renew(lease).then(keep));
          keep();
          throw new Error("no answer");
        },
      }),
      async ({ broker, host, log, until }) => {
        await until(() => host.shardsOwned.length === 2);
        const { lease } = broker.leases.live().find(({ lease: { key } }) => key === "shard.0")!;
        away = true;
        expect(await until(() => log.includes("shard lost"))).toBe(true);
        away = false;
        expect(await until(() => host.shardsOwned.length === 2)).toBe(true);
        const now = broker.leases.live().find(({ lease: { key } }) => key === "shard.0")!;
        expect(now.lease.epoch).toBeGreaterThan(lease.epoch);
      },
    );
  });

  test("claims a shard that can't be restarted at each renewal, and no sooner", async () => {
    let isBroken = true;
    let claims = 0;
    await withHost(
      (leases) => ({
        claim: (key, value) => {
          if (key === "shard.0") claims++;
          return leases.claim(key, value);
        },
      }),
      async ({ broker, host, until }) => {
        const startMs = broker.time.monotonicMs();
        await until(() => broker.time.monotonicMs() - startMs > 2 * TTL_MS);
        expect(claims).toBeGreaterThan(3);
        expect(claims).toBeLessThan(9);
        isBroken = false;
        expect(await until(() => host.shardsOwned.length === 2)).toBe(true);
      },
      () => (isBroken ? Promise.reject(new Error("no permission")) : Promise.resolve([])),
    );
  });

  test("logs once when every shard has an owner again after an outage", async () => {
    let isAway = false;
    const unless = <A>(f: () => Promise<A>): Promise<A> =>
      isAway ? Promise.reject(new Error("no answer")) : f();
    const again = "host serves again: every shard has an owner";
    await withHost(
      (leases) => ({
        renew: (lease, value) => unless(() => leases.renew(lease, value)),
        claim: (key, value) => unless(() => leases.claim(key, value)),
      }),
      async ({ host, log, until }) => {
        await until(() => host.shardsOwned.length === 2);
        isAway = true;
        expect(await until(() => host.shardsOwned.length === 0)).toBe(true);
        expect(log).not.toContain(again);
        isAway = false;
        expect(await until(() => log.includes(again))).toBe(true);
        expect(host.shardsOwned).toHaveLength(2);
        await until(() => false); // four TTLs more
        expect(log.filter((line) => line === again)).toHaveLength(1);
      },
    );
  });

  test("claims its own lease again at once when the watch reports it gone", async () => {
    await withHost(
      () => ({}),
      async ({ broker, host, until }) => {
        await until(() => host.shardsOwned.length === 2);
        const { lease } = broker.leases.live().find(({ lease: { key } }) => key === "host.a")!;
        broker.leases.wipe("host.a", lease.epoch);
        const startMs = broker.time.monotonicMs();
        expect(await until(() => holderOf(broker, "host.a") === "a")).toBe(true);
        expect(broker.time.monotonicMs() - startMs).toBeLessThan(TTL_MS / 10);
      },
    );
  });

  test("is not ready while a shard's lease is not renewed", async () => {
    await withHost(
      (leases) => ({
        claim: (key, value) =>
          key === "shard.1" ? Promise.resolve({ _tag: "Held" }) : leases.claim(key, value),
      }),
      async ({ broker, host, until }) => {
        await until(() => broker.time.monotonicMs() > 2.5 * TTL_MS);
        expect([host.ready, host.shardsUnowned, host.shardsOverdue]).toEqual([false, 1, 1]);
      },
    );
  });
});

test("a gateway claims its lease again at once when the watch reports it gone, and counts shards without an owner", async () => {
  const time = new VirtualTime();
  const broker = new MemoryBroker({ time, leaseTtlMs: TTL_MS, shards: 2 });
  const connection = broker.connect("gateway");
  const { subjects } = broker;
  const bus = makeMemoryBus(connection);
  const blobs = makeMemoryBlobs(connection);
  const quiet = (): void => undefined;
  const log = { debug: quiet, info: quiet, warn: quiet, error: quiet };
  const config: GatewayConfig = { gatewayId: "g", subjects, shards: 2, ...GATEWAY_BOUNDS_DEFAULT };
  const module = () => ({ routes: new RouteTable([]), env: {}, signed: new Set<string>() });
  const calls = new CallClient({ bus, blobs, time, subjects, shards: 2 });
  const leases = makeMemoryLeases(connection);
  const services: GatewayServices = {
    config,
    module,
    access: new Access({ config, module, log }),
    calls,
    sockets: new SocketKeeper({ config, calls, bus, leases, log, time }),
    metrics: agentMetrics(noMetrics),
    inbox: makeMemoryInbox(connection),
    unfinished: new UnfinishedWork(time, log),
    leases,
    blobs, bus, time,
    log,
  }; // prettier-ignore
  const scope = Effect.runSync(Scope.make());
  let gateway: Gateway | undefined;
  void Effect.runPromise(Scope.provide(Gateway.make(services), scope)).then((g) => (gateway = g));
  await time.advance(1);
  const first = broker.leases.live().find(({ lease: { key } }) => key === "gateway.g")!.lease;
  const owned = broker.leases.claim("shard.0", "a")!;
  broker.leases.wipe("gateway.g", first.epoch);
  await time.advance(1);
  const second = broker.leases.live().find(({ lease: { key } }) => key === "gateway.g")!.lease;
  expect(second.epoch).toBeGreaterThan(first.epoch);
  expect(gateway!.shardsUnowned).toBe(1);
  await time.advance(TTL_MS / 2);
  broker.leases.wipe("shard.0", owned.epoch);
  await time.advance(1.6 * TTL_MS);
  expect([gateway!.shardsUnowned, gateway!.shardsOverdue]).toEqual([2, 1]);
  await time.advance(TTL_MS);
  expect(gateway!.shardsOverdue).toBe(2);
  const closing = Effect.runPromise(Scope.close(scope, Exit.void));
  await time.advance(1);
  await closing;
});
