/** The leases of workers whose control process keeps them, under virtual time. */
import { beforeEach, describe, expect, it, vi } from "vitest";
import { BrokerUnavailable } from "../../core/bus/Bus.ts";
import type { ClaimResult, Lease, LeaseChange, LeasesShape } from "../../core/lease/Leases.ts";
import { makeMemoryLeases } from "../../services/memory/MemoryLeases.ts";
import { MemoryBroker } from "../../services/memory/MemoryBroker.ts";
import { VirtualTime } from "../../services/memory/VirtualTime.ts";
import { channelLeases } from "../../services/workers/channelLeases.ts";
import { LeaseKeeper, type LeaseCustomer } from "../../services/workers/LeaseKeeper.ts";
import { readLeaseRequests, type LeaseAnswer } from "../../services/workers/messages.ts";
import { collectingLog } from "../kit/system.ts";

const TTL_MS = 5_000;

let time: VirtualTime;
let broker: MemoryBroker;
let keeper: LeaseKeeper;
/** What another process of the installation sees. */
let seen: LeaseChange[];

/** One worker process, over a channel that is only a function. */
class Worker {
  lives = true;
  readonly seen: LeaseChange[] = [];
  readonly leases: LeasesShape;
  readonly customer: LeaseCustomer;
  close!: () => void;

  constructor(number = 0) {
    let onAnswer = (_answer: LeaseAnswer): void => undefined;
    let onChange = (_change: LeaseChange): void => undefined;
    this.customer = keeper.join(number, {
      lives: () => this.lives,
      onChange: (change) => onChange(change),
    });
    const own = makeMemoryLeases(broker.connect(`worker-${number}`));
    const channel = {
      send: (message: object) => {
        for (const request of readLeaseRequests(message))
          void this.customer.ask(request).then((answer) => onAnswer(answer));
      },
      onAnswer: (f: typeof onAnswer) => void (onAnswer = f),
      onChange: (f: typeof onChange) => void (onChange = f),
      closed: new Promise<void>((resolve) => (this.close = resolve)),
    };
    this.leases = channelLeases(own, channel, time);
  }

  async watch(): Promise<void> {
    const watched = this.leases.watch((change) => this.seen.push(change), new AbortController().signal); // prettier-ignore
    await time.advance(1);
    await watched;
  }

  async claim(key: string, value: string): Promise<Lease | undefined> {
    const result = await settled(this.leases.claim(key, value));
    return result._tag === "Claimed" ? result.lease : undefined;
  }
}

async function settled<A>(result: Promise<A>): Promise<A> {
  await time.advance(1);
  return result;
}
const holder = (key: string): string | undefined =>
  broker.leases.live().find(({ lease }) => lease.key === key)?.lease.value;
const valuesOf = (changes: ReadonlyArray<LeaseChange>, key: string) =>
  changes.filter((change) => change.key === key).map(({ value }) => value);

beforeEach(async () => {
  time = new VirtualTime();
  broker = new MemoryBroker({ time, leaseTtlMs: TTL_MS, shards: 2 });
  const leases = makeMemoryLeases(broker.connect("control"));
  keeper = new LeaseKeeper({ leases, time, log: collectingLog() });
  seen = [];
  const other = makeMemoryLeases(broker.connect("other"));
  void other.watch((change) => seen.push(change), new AbortController().signal);
  await time.advance(1);
});

describe("leases that a control process keeps", () => {
  it("are kept for a stalled worker while it lives, and lost by a frozen one", async () => {
    const worker = new Worker();
    const lease = await worker.claim("shard.0", "a");
    await time.advance(4 * TTL_MS);
    expect(holder("shard.0")).toBe("a");
    expect(await settled(worker.leases.renew(lease!))).toEqual({ _tag: "Renewed" });
    worker.lives = false;
    await time.advance(TTL_MS + 1_000);
    expect(holder("shard.0")).toBe(undefined);
    expect(await settled(worker.leases.renew(lease!))).toEqual({ _tag: "Lost" });
  });

  it.each(["parse", "stringify"] as const)(
    "are not asked for by a worker whose code has replaced JSON.%s",
    async (name) => {
      const worker = new Worker();
      const lease = await worker.claim("shard.0", "a");
      const asks = vi.spyOn(worker.customer, "ask");
      const replaced = vi.spyOn(JSON, name).mockImplementation(() => "{}");
      const renewed = worker.leases.renew(lease!).catch((error: unknown) => error);
      await time.advance(TTL_MS);
      replaced.mockRestore();
      expect([asks.mock.calls, await renewed]).toEqual([[], expect.any(BrokerUnavailable)]);
      expect(await settled(worker.leases.renew(lease!))).toEqual({ _tag: "Renewed" });
    },
  );

  it("are each claimed by the successor in one step: no other process sees a free shard", async () => {
    const first = new Worker();
    await first.claim("host.a", "a");
    const old = await first.claim("shard.0", "a");
    first.customer.ended(true);
    await time.advance(2 * TTL_MS);
    expect([holder("host.a"), holder("shard.0")]).toEqual(["a", "a"]);

    const next = new Worker();
    await next.watch();
    expect(valuesOf(next.seen, "shard.0")).toEqual([]); // free, for the successor alone
    await next.claim("host.b", "b");
    expect([holder("host.a"), holder("host.b")]).toEqual([undefined, "b"]);
    const lease = await next.claim("shard.0", "b");
    expect(lease!.epoch).toBeGreaterThan(old!.epoch);
    await time.advance(1);
    expect(valuesOf(seen, "shard.0")).toEqual(["a", "b"]);
    expect(valuesOf(next.seen, "shard.0")).toEqual(["b"]);
    // At no time were there two hosts.
    const ofHosts = seen.filter(({ key }) => key.startsWith("host."));
    expect(ofHosts.map(({ key, value }) => [key, value])).toEqual([
      ["host.a", "a"],
      ["host.a", undefined],
      ["host.b", "b"],
    ]);
    expect(await settled(next.leases.renew(lease!))).toEqual({ _tag: "Renewed" });
  });

  it("are not renewed while the successor claims them", async () => {
    const first = new Worker();
    await first.claim("shard.0", "a");
    first.customer.ended(true);
    const next = new Worker();
    const asked: string[] = [];
    let supersede = (): void => undefined;
    broker.intercept = ({ kind, key }) => {
      if (key === "shard.0") asked.push(kind);
      return kind === "supersede" ? new Promise((resolve) => (supersede = resolve)) : undefined;
    };
    const claim = next.leases.claim("shard.0", "b");
    await time.advance(TTL_MS - 1_000); // late, and the broker is slow to answer
    supersede();
    expect(await settled(claim)).toMatchObject({ _tag: "Claimed" });
    expect(asked).toEqual(["supersede"]);
    await time.advance(TTL_MS - 1_000);
    expect(asked).toEqual(["supersede", "renew"]);
  });

  it("are kept as long for a second successor as for the first", async () => {
    const first = new Worker();
    await first.claim("host.a", "a");
    await first.claim("shard.0", "a");
    first.customer.ended(true);
    const second = new Worker();
    await second.claim("host.b", "b");
    await second.claim("shard.0", "b");
    await time.advance(9_000);
    second.customer.ended(true);
    await time.advance(9_000);
    expect(holder("shard.0")).toBe("b");
  });

  it("can't be claimed by another worker, which sees them held", async () => {
    const first = new Worker(0);
    const other = new Worker(1);
    await first.claim("shard.0", "a");
    await other.watch();
    first.customer.ended(true);
    expect(await other.claim("shard.0", "c")).toBe(undefined);
    expect(valuesOf(other.seen, "shard.0")).toEqual(["a"]);
  });

  it("are released if the successor does not claim them, or there is none", async () => {
    const first = new Worker();
    for (const key of ["host.a", "shard.0", "shard.1"]) await first.claim(key, "a");
    first.customer.ended(true);
    const next = new Worker();
    await next.watch();
    await next.claim("host.b", "b");
    await next.claim("shard.1", "b");
    await time.advance(2 * TTL_MS + 1_000);
    expect([holder("shard.0"), holder("shard.1")]).toEqual([undefined, "b"]);
    expect(seen.findLast(({ key }) => key === "shard.0")).toMatchObject({ released: true });

    next.customer.ended(true);
    await time.advance(14_000);
    expect(holder("shard.1")).toBe("b");
    await time.advance(2_000);
    expect(holder("shard.1")).toBe(undefined);
  });

  it("are released at once for a gateway, and for a worker that is not replaced", async () => {
    const first = new Worker();
    await first.claim("gateway.a", "a");
    await first.claim("shard.0", "a");
    first.customer.ended(true);
    await time.advance(1);
    expect([holder("gateway.a"), holder("shard.0")]).toEqual([undefined, "a"]);
    const second = new Worker(1);
    await second.claim("shard.1", "b");
    second.customer.ended(false);
    await time.advance(1);
    expect(holder("shard.1")).toBe(undefined);
  });

  it("belong to the successor if their claiming process has ended meanwhile", async () => {
    const first = new Worker();
    const claiming = first.leases.claim("shard.0", "a");
    await Promise.resolve();
    first.customer.ended(true);
    await settled(claiming);
    const next = new Worker();
    expect(await next.claim("shard.0", "b")).toMatchObject({ value: "b" });
  });

  it("can't be renewed or released by another process", async () => {
    const first = new Worker(0);
    const other = new Worker(1);
    const lease = (await first.claim("shard.0", "a"))!;
    expect(await settled(other.leases.renew(lease))).toEqual({ _tag: "Lost" });
    await settled(other.leases.release(lease));
    expect(holder("shard.0")).toBe("a");
  });

  it("are listed again for a second watch of a worker", async () => {
    const worker = new Worker();
    await worker.claim("shard.0", "a");
    await worker.watch();
    await worker.watch();
    expect(valuesOf(worker.seen, "shard.0")).toEqual(["a", "a"]);
  });

  it("fail all requests when the control process has ended, including those in flight", async () => {
    const worker = new Worker();
    let refused: unknown;
    broker.intercept = () => new Promise(() => undefined);
    const claiming: Promise<ClaimResult | void> = worker.leases
      .claim("shard.0", "a")
      .catch((error: unknown) => void (refused = error));
    worker.close();
    await claiming;
    expect(refused).toMatchObject({ _tag: "BrokerUnavailable" });
    await expect(worker.leases.claim("shard.1", "a")).rejects.toMatchObject({
      _tag: "BrokerUnavailable",
    });
  });
});
