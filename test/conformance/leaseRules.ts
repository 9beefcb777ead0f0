/** The rules of `core/lease/Leases`, for any adapter. */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { BrokerUnavailable } from "../../core/bus/Bus.ts";
import type { Lease, LeaseChange } from "../../core/lease/Leases.ts";
import type { Backend, BackendOptions, Ports } from "./Backend.ts";

/** For the rules of expiry, so that they wait a second instead of five. */
const TTL_MS = 1_000;

export function leaseRules(makeBackend: (options?: BackendOptions) => Promise<Backend>): void {
  let backend: Backend;
  let a: Ports;
  let b: Ports;
  let keys = 0;
  const newKey = (kind = "shard"): string => `${kind}.${++keys}`;
  const useBackend = (options?: BackendOptions): void => {
    beforeAll(async () => {
      backend = await makeBackend(options);
      [a, b] = [await backend.open(), await backend.open()];
    });
    afterAll(() => backend.close());
  };

  const claim = async (ports: Ports, key: string, value: string): Promise<Lease> => {
    const result = await ports.leases.claim(key, value);
    if (result._tag !== "Claimed") throw new Error(`${key} is held`);
    return result.lease;
  };
  const watch = async (ports: Ports, key: string) => {
    const stop = new AbortController();
    const changes: LeaseChange[] = [];
    let begun = false;
    void ports.leases
      .watch((change) => {
        if (change.key === key) changes.push(change);
      }, stop.signal)
      .then(() => (begun = true));
    await backend.until("the watch's first list", () => begun);
    const values = () => changes.map((c) => c.value);
    const saw = (count: number) =>
      backend.until(`${count} changes of ${key}`, () =>
        changes.length >= count
          ? { done: true as const, value: changes }
          : { done: false as const, saw: values() },
      );
    return { changes, values, saw, stop: () => stop.abort() };
  };
  const whenFree = (ports: Ports, key: string, value: string) =>
    backend.until(`${key} to be free`, async () => {
      const result = await ports.leases.claim(key, value);
      return result._tag === "Claimed" && result.lease;
    });

  describe("leases", () => {
    useBackend();

    it("grant a key to only one of several concurrent claims", async () => {
      const key = newKey();
      const results = await Promise.all(
        Array.from({ length: 10 }, (_, n) => (n % 2 ? a : b).leases.claim(key, `h${n}`)),
      );
      expect(results.filter((r) => r._tag === "Claimed")).toHaveLength(1);
      expect(await a.leases.claim(key, "late")).toEqual({ _tag: "Held" });
    });

    it("are freed by release at once, which notifies watchers and does not affect another's lease", async () => {
      const key = newKey();
      const watching = await watch(a, key);
      const first = await claim(a, key, "h1");
      // A watch that has to restart at that moment reports the current state, but not the changes
      // in between.
      await watching.saw(1);
      await a.leases.release(first);
      await watching.saw(2);
      const second = await claim(b, key, "h2");
      await watching.saw(3);
      expect(watching.values()).toEqual(["h1", undefined, "h2"]);
      expect(watching.changes.map(({ released }) => released)).toEqual([
        undefined,
        true,
        undefined,
      ]);
      await a.leases.release(first);
      expect(await a.leases.renew(first)).toEqual({ _tag: "Lost" });
      expect(await b.leases.renew(second)).toEqual({ _tag: "Renewed" });
      watching.stop();
      await b.leases.release(second);
    });

    it("are replaced by supersede with a new claim, and the key is never free in between", async () => {
      const key = newKey();
      const watching = await watch(b, key);
      const first = await claim(a, key, "h1");
      await watching.saw(1);
      expect(await a.leases.renew(first)).toEqual({ _tag: "Renewed" });
      const result = await a.leases.supersede(first, "h2");
      const second = result._tag === "Claimed" ? result.lease : undefined;
      expect(second).toMatchObject({ key, value: "h2" });
      expect(second!.epoch).toBeGreaterThan(first.epoch);
      await watching.saw(2);
      expect(watching.values()).toEqual(["h1", "h2"]);
      expect(watching.changes[1]!.revision).toBe(second!.epoch);
      expect(await a.leases.renew(first)).toEqual({ _tag: "Lost" });
      expect(await a.leases.supersede(first, "h3")).toEqual({ _tag: "Held" });
      expect(await a.leases.renew(second!)).toEqual({ _tag: "Renewed" });
      expect(await b.leases.list(key)).toEqual([second]);
      await a.leases.release(second!);
      expect(await a.leases.supersede(second!, "h3")).toEqual({ _tag: "Held" });
      watching.stop();
    });

    it("that a process claims again are not lost by its late renewal of the lease before", async () => {
      const key = newKey();
      const first = await claim(a, key, "h1");
      const [result] = await Promise.all([
        a.leases.supersede(first, "h2"),
        a.leases.renew(first),
        a.leases.renew(first),
      ]);
      const second = result._tag === "Claimed" ? result.lease : undefined;
      expect(second).toMatchObject({ key, value: "h2" });
      expect(await a.leases.renew(second!)).toEqual({ _tag: "Renewed" });
      // Each begins before the one before it has ended.
      const renewal = a.leases.renew(second!);
      const release = a.leases.release(second!);
      await a.leases.renew(second!);
      await release;
      const third = await claim(a, key, "h3");
      await renewal;
      expect(await a.leases.renew(second!)).toEqual({ _tag: "Lost" });
      expect(await a.leases.renew(third)).toEqual({ _tag: "Renewed" });
      await a.leases.release(third);
    });

    it("can be renewed, replaced and released only by the process that claimed them", async () => {
      const key = newKey();
      const lease = await claim(a, key, "h1");
      expect(await b.leases.renew(lease)).toEqual({ _tag: "Lost" });
      expect(await b.leases.supersede(lease, "h2")).toEqual({ _tag: "Held" });
      await b.leases.release(lease);
      expect(await a.leases.renew(lease)).toEqual({ _tag: "Renewed" });
      await a.leases.release(lease);
    });

    it("can change their value in a renewal; an unchanged value is no change", async () => {
      const key = newKey();
      const lease = await claim(a, key, "one");
      const watching = await watch(b, key);
      expect(watching.values()).toEqual(["one"]);
      await a.leases.renew(lease);
      await a.leases.renew(lease, "two");
      await watching.saw(2);
      expect(watching.values()).toEqual(["one", "two"]);
      expect(await b.leases.list(key)).toEqual([{ ...lease, value: "two" }]);
      watching.stop();
      await a.leases.release(lease);
    });

    it("are listed by prefix while live", async () => {
      const one = await claim(a, "host.one.x", "1");
      const two = await claim(b, "host.two", JSON.stringify({ at: "10.0.0.1", odd: "ü\n" }));
      const listed = await a.leases.list("host.");
      expect(listed.toSorted((x, y) => (x.key < y.key ? -1 : 1))).toEqual([one, two]);
      expect(await a.leases.list("host.t")).toEqual([two]);
      await a.leases.release(one);
      expect(await b.leases.list("host.one")).toEqual([]);
      await b.leases.release(two);
    });

    it("of gateways are like any other: claimed once, watched, listed, renewed, released", async () => {
      const key = "gateway.g1";
      const watching = await watch(b, key);
      const lease = await claim(a, key, "g1");
      expect(await b.leases.claim(key, "g2")).toEqual({ _tag: "Held" });
      expect(await a.leases.renew(lease)).toEqual({ _tag: "Renewed" });
      expect(await b.leases.list("gateway.")).toEqual([lease]);
      expect(await b.leases.list("gate")).toEqual([lease]);
      expect((await b.leases.list("")).map((each) => each.key)).toContain(key);
      expect(await b.leases.list("shard.g1")).toEqual([]);
      await a.leases.release(lease);
      await watching.saw(2);
      expect(watching.values()).toEqual(["g1", undefined]);
      expect(await a.leases.renew(lease)).toEqual({ _tag: "Lost" });
      const next = await claim(b, key, "g2");
      expect(next.epoch).toBeGreaterThan(lease.epoch);
      await b.leases.release(next);
      await watching.saw(4);
      expect(watching.changes.at(-1)).toMatchObject({ value: undefined, released: true });
      watching.stop();
    });

    it("are reported no more once the watch's signal has fired", async () => {
      const key = newKey();
      const watching = await watch(b, key);
      watching.stop();
      const other = await watch(b, key);
      await a.leases.release(await claim(a, key, "h1"));
      await other.saw(2);
      expect(watching.changes).toEqual([]);
      other.stop();
    });
  });

  describe("leases that expire", () => {
    useBackend({ leaseTtlMs: TTL_MS });

    it("are kept past their TTL when renewed, with the same epoch", async () => {
      const begin = async () => ({
        lease: await claim(a, newKey(), "h1"),
        sinceMs: backend.nowMs(),
      });
      let { lease, sinceMs } = await begin();
      let renewedMs = sinceMs;
      const wanted = () => [{ _tag: "Renewed" }, { _tag: "Held" }, [lease]];
      const saw = await backend.until("one and a half TTLs", async () => {
        const nowMs = backend.nowMs();
        if (nowMs - renewedMs < TTL_MS / 5) return false;
        const { key } = lease;
        const value = [
          await a.leases.renew(lease),
          await b.leases.claim(key, "h2"),
          await b.leases.list(key),
        ];
        const isLate = backend.nowMs() - renewedMs > TTL_MS / 2;
        renewedMs = nowMs;
        if (isLate) {
          // The machine stood still, and it may have expired: another one.
          ({ lease, sinceMs } = await begin());
          renewedMs = sinceMs;
          return false;
        }
        const isOver = nowMs - sinceMs > 1.5 * TTL_MS;
        return (isOver || JSON.stringify(value) !== JSON.stringify(wanted())) && value;
      });
      expect(saw).toEqual(wanted());
      await a.leases.release(lease);
    });

    it.each(["shard", "gateway"])(
      "of a %s expire when not renewed; watchers are notified, and the next epoch is larger",
      async (kind) => {
        const key = newKey(kind);
        const watching = await watch(b, key);
        const claimedMs = backend.nowMs();
        const lease = await claim(a, key, "h1");
        const changes = await watching.saw(2);
        expect(backend.nowMs() - claimedMs).toBeGreaterThanOrEqual(TTL_MS * 0.9);
        expect(watching.values()).toEqual(["h1", undefined]);
        expect(changes[1]?.released).toBeUndefined();
        expect(changes[0]?.revision).toBe(lease.epoch);
        expect(changes[1]?.revision).toBeGreaterThanOrEqual(lease.epoch);
        const next = await claim(b, key, "h2");
        expect(next.epoch).toBeGreaterThan(lease.epoch);
        expect(await a.leases.renew(lease)).toEqual({ _tag: "Lost" });
        await watching.saw(3);
        expect(watching.values().slice(0, 3)).toEqual(["h1", undefined, "h2"]);
        watching.stop();
        await b.leases.release(next);
      },
    );

    it("have epochs that grow over many claims, however these end", async () => {
      const key = newKey();
      const epochs: number[] = [];
      for (let n = 0; n < 4; n++) {
        const lease = await whenFree(n % 2 ? a : b, key, `h${n}`);
        epochs.push(lease.epoch);
        if (n % 2 === 0) await (n % 2 ? a : b).leases.release(lease);
      }
      expect(epochs).toEqual(epochs.toSorted((x, y) => x - y));
      expect(new Set(epochs).size).toBe(epochs.length);
    });

    it("are watched without missing what happened while the broker was away", async () => {
      const [gone, kept] = [newKey(), newKey()];
      const lease = await claim(a, gone, "h1");
      const watchingGone = await watch(b, gone);
      const watchingKept = await watch(b, kept);
      await backend.kill();
      await backend.until(
        "the loss of the connections",
        () => !a.bus.connected() && !b.bus.connected(),
      );
      await expect(a.leases.claim(kept, "x")).rejects.toBeInstanceOf(BrokerUnavailable);
      await expect(a.leases.renew(lease)).rejects.toBeInstanceOf(BrokerUnavailable);
      await backend.restart();
      await backend.until("the connections", () => a.bus.connected() && b.bus.connected());
      const next = await claim(a, kept, "h2");
      await watchingKept.saw(1);
      await watchingGone.saw(2);
      expect(watchingGone.values()).toEqual(["h1", undefined]);
      expect(watchingKept.values()[0]).toBe("h2");
      watchingGone.stop();
      watchingKept.stop();
      await a.leases.release(next);
    });
  });
}
