/** The contract of `core/delivery/DeliveryLog`, for any adapter. */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { RecordKind } from "../../core/delivery/DeliveryLog.ts";
import type { DeliveryRecord } from "../../schemas/DeliveryRecord.ts";
import type { Backend, Ports } from "./Backend.ts";

export function deliveryLogRules(makeBackend: () => Promise<Backend>): void {
  describe("the delivery log", () => {
    let backend: Backend;
    let a: Ports;
    let b: Ports;
    beforeAll(async () => {
      backend = await makeBackend();
      [a, b] = [await backend.open(), await backend.open()];
    });
    afterAll(() => backend.close());

    let made = 0;
    const taken = (more: Partial<DeliveryRecord> = {}): DeliveryRecord => ({
      id: `d${++made}`,
      at: 1,
      status: "answered",
      agent: ["Repo", "a"],
      ...more,
    });
    const refused = (more: Partial<DeliveryRecord> = {}): DeliveryRecord => ({
      id: `r${++made}`,
      at: 1,
      status: "refused",
      ...more,
    });
    const read = async (kind: RecordKind, sinceMs = 0): Promise<DeliveryRecord[]> => {
      const found: DeliveryRecord[] = [];
      for await (const records of b.deliveries.since(kind, sinceMs)) found.push(...records);
      return found;
    };
    const newestFirst = async (kind: RecordKind): Promise<DeliveryRecord[]> => {
      const found: DeliveryRecord[] = [];
      for await (const records of b.deliveries.recent(kind)) found.push(...records);
      return found;
    };
    const last = (records: ReadonlyArray<DeliveryRecord>, count: number) =>
      records.slice(-count).map(({ id }) => id);

    it("returns the records of one process in order, and newest first", async () => {
      const records = Array.from({ length: 50 }, () => taken({ error: "x".repeat(400) }));
      for (const record of records) {
        a.deliveries.record(record);
        if (made % 7 === 0) await a.deliveries.flush();
      }
      await a.deliveries.flush();
      const ids = records.map(({ id }) => id);
      expect(last(await read("taken"), 50)).toEqual(ids);
      expect((await newestFirst("taken")).slice(0, 50).map(({ id }) => id)).toEqual(
        ids.toReversed(),
      );
    });

    it("stores records soon without a flush", async () => {
      const record = taken();
      a.deliveries.record(record);
      const found = await backend.until("stored", async () =>
        (await read("taken")).find(({ id }) => id === record.id),
      );
      expect(found).toEqual(record);
    });

    it("reads from a given time", async () => {
      a.deliveries.record(taken());
      await a.deliveries.flush();
      const startMs = backend.wallMs();
      await backend.until("time passes", () => backend.wallMs() > startMs + 5);
      const record = taken();
      a.deliveries.record(record);
      await a.deliveries.flush();
      expect((await read("taken", startMs + 1)).map(({ id }) => id)).toEqual([record.id]);
      expect(await read("taken", backend.wallMs() + 60_000)).toEqual([]);
    });

    it("keeps refused deliveries apart, and bounds how many of them a process stores at once", async () => {
      const before = (await read("taken")).length;
      const flood = Array.from({ length: 5_000 }, () => refused());
      for (const record of flood) a.deliveries.record(record);
      await a.deliveries.flush();
      const stored = await read("refused");
      expect(stored.length).toBeLessThan(300);
      expect(stored.at(-1)!.id).toBe(flood.at(-1)!.id);
      const told = stored.reduce((sum, { more = 0 }) => sum + 1 + more, 0);
      expect(told).toBe(flood.length);
      expect(await read("taken")).toHaveLength(before);
      expect(a.deliveries.dropped()).toBe(0);
    });

    it("truncates an error's text, which an agent controls", async () => {
      a.deliveries.record(taken({ error: "e".repeat(100_000) }));
      await a.deliveries.flush();
      expect((await read("taken")).at(-1)!.error!.length).toBeLessThan(1_000);
    });

    it("sends followers what is recorded from then on", async () => {
      const seen: string[] = [];
      const stop = b.deliveries.follow((records) => seen.push(...records.map(({ id }) => id)));
      const record = taken();
      await backend.until("followed", async () => {
        if (seen.length > 0) return true;
        a.deliveries.record(record);
        await a.deliveries.flush();
        return false;
      });
      stop();
      expect(seen[0]).toBe(record.id);
    });

    it("drops and counts what can't be stored, and continues afterwards", async () => {
      await backend.kill();
      a.deliveries.record(taken());
      await backend.until("dropped", async () => {
        await a.deliveries.flush();
        return a.deliveries.dropped() === 1;
      });
      await backend.restart();
      const stored = await backend.until("stored again", async () => {
        const record = taken();
        a.deliveries.record(record);
        await a.deliveries.flush();
        const found = await read("taken").catch(() => []);
        return found.some(({ id }) => id === record.id);
      });
      expect(stored).toBe(true);
    });
  });
}
