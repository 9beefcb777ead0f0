/** The contracts of `Snapshots`, `Blobs` and `DeadLetters`, for any adapter. */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { BrokerUnavailable } from "../../core/bus/Bus.ts";
import type { StoredDeadLetter } from "../../core/dead/DeadLetters.ts";
import { SNAPSHOTS_KEPT } from "../../core/journal/Snapshots.ts";
import { addressKey, agentId, type AgentId, type Sequence } from "../../schemas/Address.ts";
import { encodeFrame } from "../../schemas/Frame.ts";
import { LARGE_BYTES, message, newAgent, ODD_NAMES, type Backend, type Ports } from "./Backend.ts";
import { collect } from "../kit/collect.ts";

export function storeRules(makeBackend: () => Promise<Backend>): void {
  describe("snapshots, blobs and dead letters", () => {
    let backend: Backend;
    let a: Ports;
    let b: Ports;
    beforeAll(async () => {
      backend = await makeBackend();
      [a, b] = [await backend.open(), await backend.open()];
    });
    afterAll(() => backend.close());

    const snapshots = (id: AgentId): Promise<Uint8Array[]> => collect(b.snapshots.newestFirst(id));
    const letters = (className?: string): Promise<StoredDeadLetter[]> =>
      collect(b.deadLetters.list(className));
    const equal = (x: Uint8Array | undefined, y: Uint8Array): boolean =>
      x !== undefined && Buffer.compare(x, y) === 0;

    it("return the last few snapshots, newest first", async () => {
      const id = newAgent();
      expect(await snapshots(id)).toEqual([]);
      const all = ["1", "2", "3", "4"].map((n) => message(n));
      for (const data of all) await a.snapshots.put(id, data);
      expect(await snapshots(id)).toEqual(all.slice(-SNAPSHOTS_KEPT).toReversed());
    });

    it.each([
      ["that compresses well", encodeFrame({ id: "c" }, new Uint8Array(LARGE_BYTES))],
      ["that does not compress", message("n", LARGE_BYTES)],
      ["just large enough to be packed", message("p", 33 * 1024)],
    ])("keep a snapshot %s byte for byte", async (_, data) => {
      const id = newAgent();
      await a.snapshots.put(id, message("small"));
      for (let n = 0; n < SNAPSHOTS_KEPT + 1; n++) await a.snapshots.put(id, data);
      const found = await snapshots(id);
      expect(found).toHaveLength(SNAPSHOTS_KEPT);
      for (const snapshot of found) expect(equal(snapshot, data)).toBe(true);
    });

    it.each(ODD_NAMES)("keep snapshots under a name with %s", async (_, name) => {
      const id = agentId("Odd_Class$", name);
      const large = message("large", LARGE_BYTES / 2);
      await a.snapshots.put(id, large);
      expect(equal((await snapshots(id))[0], large)).toBe(true);
    });

    it("keep the last bases, and replace them only by revision", async () => {
      const id = newAgent();
      expect(await b.snapshots.bases(id)).toBeUndefined();
      const put = (data: Uint8Array, revision: number) => a.snapshots.putBase(id, data, revision);
      const first = (await put(message("1"), 0))!;
      expect(await put(message("stale"), 0)).toBeUndefined();
      expect(await b.snapshots.bases(id)).toEqual({ revision: first, copies: [message("1")] });
      const second = (await put(message("2"), first))!;
      const third = (await put(message("3"), second))!;
      expect(await put(message("stale"), second)).toBeUndefined();
      const copies = [message("3"), message("2")];
      expect(await b.snapshots.bases(id)).toEqual({ revision: third, copies });
    });

    it("never displace a base by snapshots, and keep large ones byte for byte", async () => {
      const id = newAgent();
      const large = message("base", LARGE_BYTES);
      const revision = await a.snapshots.putBase(id, large, 0);
      for (let n = 0; n < SNAPSHOTS_KEPT + 1; n++) await a.snapshots.put(id, message(`${n}`));
      expect(await snapshots(id)).toHaveLength(SNAPSHOTS_KEPT);
      const found = await b.snapshots.bases(id);
      expect(found?.revision).toBe(revision);
      expect(equal(found?.copies[0], large)).toBe(true);
    });

    it("keep the last quarantine mark of each agent, for every process", async () => {
      const [id, other] = [newAgent("a.b *"), newAgent()];
      const mark = {
        kind: "kills", reason: "why", host: "h", sinceMs: 1, untilMs: 2, times: 1, version: "v",
      } as const; // prettier-ignore
      const marks = async (of: AgentId) =>
        (await b.quarantines.list()).filter((each) => addressKey(each.id) === addressKey(of));
      expect(await marks(id)).toEqual([]);
      for (const times of [1, 2, 3]) await a.quarantines.put(id, { ...mark, times });
      expect(await marks(id)).toEqual([{ id, mark: { ...mark, times: 3 } }]);
      expect(await marks(other)).toEqual([]);
      await a.snapshots.put(id, message("a snapshot"));
      expect(await snapshots(id)).toHaveLength(1);
      await b.quarantines.put(id, mark);
      expect(await marks(id)).toEqual([{ id, mark }]);
    });

    it("remove bases up to a revision", async () => {
      const id = newAgent();
      const first = (await a.snapshots.putBase(id, message("old", LARGE_BYTES), 0))!;
      await a.snapshots.removeBases(id, first);
      expect(await b.snapshots.bases(id)).toBeUndefined();
      const again = (await a.snapshots.putBase(id, message("new"), 0))!;
      await b.snapshots.removeBases(id, first);
      expect(await a.snapshots.bases(id)).toEqual({ revision: again, copies: [message("new")] });
    });

    it("keep a blob byte for byte, replace it whole, remove it", async () => {
      const name = "request/Repo/x=2Fy/1";
      expect(await a.blobs.get(name)).toBeUndefined();
      await a.blobs.remove(name);
      for (const bytes of [LARGE_BYTES, 0, 1, 128 * 1024, 128 * 1024 + 1]) {
        await a.blobs.put(name, message("b", bytes));
        expect(equal(await b.blobs.get(name), message("b", bytes))).toBe(true);
      }
      await a.blobs.put(name, new Uint8Array(0));
      expect(await b.blobs.get(name)).toEqual(new Uint8Array(0));
      await b.blobs.remove(name);
      expect(await a.blobs.get(name)).toBeUndefined();
    });

    it("return the old or the new bytes of a blob that is being replaced, never a mix", async () => {
      const name = "request/Repo/replaced";
      const versions = [0, 1, 2, 3].map((n) => message(`version ${n}`, 700_000 + n));
      await a.blobs.put(name, versions[0] as Uint8Array);
      const state = { writing: true };
      const writer = (async () => {
        for (let n = 0; n < 12; n++) await a.blobs.put(name, versions[n % 4] as Uint8Array);
        state.writing = false;
      })();
      do {
        const found = await b.blobs.get(name);
        expect(versions.some((version) => equal(found, version))).toBe(true);
      } while (state.writing);
      await writer;
    });

    it("distinguish long blob names, however late they differ", async () => {
      const long = `journal/Repo/${"=C3=BC".repeat(512)}/`;
      await a.blobs.put(`${long}1`, message("1"));
      await a.blobs.put(`${long}2`, message("2"));
      expect(await b.blobs.get(`${long}1`)).toEqual(message("1"));
      expect(await b.blobs.get(`${long}2`)).toEqual(message("2"));
    });

    it("count dead letters, large ones too", async () => {
      const before = await b.deadLetters.count();
      await a.deadLetters.put(newAgent(), message("dead"));
      await a.deadLetters.put(newAgent(), message("dead", LARGE_BYTES));
      expect(await b.deadLetters.count()).toBe(before + 2);
    });

    it("list dead letters oldest first, of one class or of all, byte for byte", async () => {
      const [one, other] = [agentId("Listed", "ü.*"), agentId("ListedToo", "x")];
      const large = message("large", LARGE_BYTES);
      for (const [id, data] of [
        [one, message("1")],
        [other, message("2")],
        [one, large],
      ] as const)
        await a.deadLetters.put(id, data);
      const listed = await letters("Listed");
      expect(listed.map(({ id }) => id)).toEqual([one, one]);
      expect(equal(listed[0]!.data, message("1"))).toBe(true);
      expect(equal(listed[1]!.data, large)).toBe(true);
      const all = (await letters()).map(({ seq }) => seq);
      expect(all).toEqual(all.toSorted((x, y) => x - y));
      expect((await letters()).slice(-3).map(({ id }) => id.class)).toEqual([
        "Listed",
        "ListedToo",
        "Listed",
      ]);
      expect(await letters("Unlisted")).toEqual([]);
    });

    it("find a dead letter by its number, and not after it is removed", async () => {
      const id = newAgent();
      for (const data of [message("first"), message("second", LARGE_BYTES)])
        await a.deadLetters.put(id, data);
      const [first, second] = (await letters()).slice(-2);
      const found = await b.deadLetters.get(second!.seq);
      expect(found?.id).toEqual(id);
      expect(equal(found?.data, second!.data)).toBe(true);
      expect(await b.deadLetters.remove(second!.seq)).toBe(true);
      expect(await a.deadLetters.get(second!.seq)).toBeUndefined();
      expect(await a.deadLetters.remove(second!.seq)).toBe(false);
      expect(await a.deadLetters.get(first!.seq)).toEqual(first);
      expect(await a.deadLetters.get((second!.seq + 100) as Sequence)).toBeUndefined();
    });

    it("keep one dead letter of each death of an agent, also once the first is removed", async () => {
      const [one, other] = [newAgent(), newAgent()];
      const before = await b.deadLetters.count();
      const text = message("died", LARGE_BYTES);
      for (const id of [one, other, one]) await a.deadLetters.put(id, text, "schedule:ü\n:1");
      await b.deadLetters.put(one, message("again"), "schedule:ü\n:1");
      await a.deadLetters.put(one, message("another"), "schedule:ü\n:2");
      const kept = (await letters()).slice(before);
      expect(kept.map(({ id }) => id)).toEqual([one, other, one]);
      expect(equal(kept[0]!.data, text)).toBe(true);
      await a.deadLetters.remove(kept[0]!.seq);
      await b.deadLetters.put(one, text, "schedule:ü\n:1");
      expect(await b.deadLetters.count()).toBe(before + 2);
    });

    it("never reuse the number of a removed dead letter", async () => {
      const id = newAgent();
      await a.deadLetters.put(id, message("removed"));
      const removed = (await letters()).at(-1)!;
      await a.deadLetters.remove(removed.seq);
      await a.deadLetters.put(id, message("next"));
      expect((await letters()).at(-1)!.seq).toBeGreaterThan(removed.seq);
    });

    it("survive a kill of the broker, and report BrokerUnavailable while it is away", async () => {
      const id = newAgent();
      await a.snapshots.put(id, message("kept", LARGE_BYTES));
      await a.blobs.put("kept", message("kept", LARGE_BYTES));
      await backend.kill();
      await backend.until(
        "the loss of the connections",
        () => !a.bus.connected() && !b.bus.connected(),
      );
      await expect(a.snapshots.put(id, message("x"))).rejects.toBeInstanceOf(BrokerUnavailable);
      await expect(snapshots(id)).rejects.toBeInstanceOf(BrokerUnavailable);
      await expect(a.blobs.put("x", message("x"))).rejects.toBeInstanceOf(BrokerUnavailable);
      await expect(b.blobs.get("kept")).rejects.toBeInstanceOf(BrokerUnavailable);
      await expect(b.blobs.remove("kept")).rejects.toBeInstanceOf(BrokerUnavailable);
      await expect(a.deadLetters.put(id, message("x"))).rejects.toBeInstanceOf(BrokerUnavailable);
      await expect(a.deadLetters.count()).rejects.toBeInstanceOf(BrokerUnavailable);
      await expect(letters()).rejects.toBeInstanceOf(BrokerUnavailable);
      const seq = 1 as Sequence;
      await expect(a.deadLetters.get(seq)).rejects.toBeInstanceOf(BrokerUnavailable);
      await expect(a.deadLetters.remove(seq)).rejects.toBeInstanceOf(BrokerUnavailable);
      await backend.restart();
      await backend.until("the connections", () => a.bus.connected() && b.bus.connected());
      expect(equal((await snapshots(id))[0], message("kept", LARGE_BYTES))).toBe(true);
      expect(equal(await b.blobs.get("kept"), message("kept", LARGE_BYTES))).toBe(true);
    });
  });
}
