/** The rules of `core/journal/Journal`, for any adapter. */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { BrokerUnavailable } from "../../core/bus/Bus.ts";
import type { AppendResult, StoredEvent } from "../../core/journal/Journal.ts";
import { addressKey, agentId, type AgentId, type Sequence } from "../../schemas/Address.ts";
import {
  LARGE_BYTES,
  message,
  newAgent,
  ODD_NAMES,
  patient,
  type Backend,
  type Ports,
} from "./Backend.ts";
import { collect } from "../kit/collect.ts";

const NONE = 0 as Sequence;
const FIRST = 1 as Sequence;

export function journalRules(makeBackend: () => Promise<Backend>): void {
  describe("the journal", () => {
    let backend: Backend;
    let a: Ports;
    let b: Ports;
    beforeAll(async () => {
      backend = await makeBackend();
      [a, b] = [await backend.open(), await backend.open()];
    });
    afterAll(() => backend.close());

    const append = (ports: Ports, id: AgentId, data: Uint8Array, expectedSeq: Sequence) =>
      ports.journal.append(id, data, { expectedSeq, signal: patient() });
    const stored = async (result: Promise<AppendResult>): Promise<Sequence> => {
      const found = await result;
      if (found._tag !== "Stored")
        throw new Error(`expected Stored, found ${JSON.stringify(found)}`);
      return found.seq;
    };
    const read = (id: AgentId, fromSeq = FIRST, toSeq?: Sequence): Promise<StoredEvent[]> =>
      collect(b.journal.read(id, toSeq === undefined ? { fromSeq } : { fromSeq, toSeq }));
    const write = async (id: AgentId, count: number, label = "e"): Promise<Sequence[]> => {
      const seqs: Sequence[] = [];
      for (let i = 0; i < count; i++)
        seqs.push(await stored(append(a, id, message(`${label}${i}`), seqs.at(-1) ?? NONE)));
      return seqs;
    };

    it("stores an event iff the agent's last sequence is the expected one", async () => {
      const id = newAgent();
      const first = await stored(append(a, id, message("1"), NONE));
      expect(await append(b, id, message("2"), NONE)).toEqual({ _tag: "Conflict" });
      const second = await stored(append(b, id, message("3"), first));
      expect(second).toBeGreaterThan(first);
      expect(await append(a, id, message("4"), first)).toEqual({ _tag: "Conflict" });
      const future = (second + 1_000) as Sequence;
      expect(await append(a, id, message("5"), future)).toEqual({ _tag: "Conflict" });
      expect((await read(id)).map((e) => e.data)).toEqual([message("1"), message("3")]);
    });

    it("reads the last events of several agents, in their order", async () => {
      const [one, none, large] = [newAgent(), newAgent(), newAgent()];
      const seq = (await write(one, 3)).at(-1);
      const data = new Uint8Array(LARGE_BYTES);
      const largeSeq = await stored(append(a, large, data, NONE));
      const lasts = await b.journal.lastOfEach([large, none, one]);
      expect(lasts.map((last) => last?.seq)).toEqual([largeSeq, undefined, seq]);
      expect(lasts.map((last) => last?.data.length)).toEqual([
        LARGE_BYTES,
        undefined,
        message("e2").length,
      ]);
      expect(await b.journal.lastOfEach([])).toEqual([]);
    });

    it("lets exactly one of many concurrent appends after the same event succeed", async () => {
      const id = newAgent();
      const results = await Promise.all(
        Array.from({ length: 20 }, (_, n) => append(n % 2 ? a : b, id, message(`${n}`), NONE)),
      );
      expect(results.filter((r) => r._tag === "Stored")).toHaveLength(1);
      expect(results.filter((r) => r._tag === "Conflict")).toHaveLength(19);
      expect(await read(id)).toHaveLength(1);
    });

    it("checks an append against its own agent's sequence, not another's", async () => {
      const [one, two] = [newAgent(), newAgent()];
      await write(one, 3);
      await write(two, 2);
      expect(await read(one)).toHaveLength(3);
      expect(await read(two)).toHaveLength(2);
    });

    it("reads events in order, without a gap, as they were appended", async () => {
      const id = newAgent();
      const noise = newAgent();
      const seqs: Sequence[] = [];
      for (let i = 0; i < 30; i++) {
        seqs.push(await stored(append(a, id, message(`${i}`), seqs.at(-1) ?? NONE)));
        if (i === 10) await write(noise, 5);
      }
      const events = await read(id);
      expect(events.map((e) => e.seq)).toEqual(seqs);
      expect(events.map((e) => e.data)).toEqual(seqs.map((_, i) => message(`${i}`)));
      for (const event of events) expect(event.storedMs).toBeGreaterThan(1_600_000_000_000);
    });

    it("reads only the range, both ends included", async () => {
      const id = newAgent();
      const seqs = await write(id, 5);
      const at = (n: number): Sequence => seqs[n] as Sequence;
      const seqsOf = async (from: Sequence, to?: Sequence) =>
        (await read(id, from, to)).map((e) => e.seq);
      expect(await seqsOf(at(1), at(3))).toEqual(seqs.slice(1, 4));
      expect(await seqsOf(at(3))).toEqual(seqs.slice(3));
      expect(await seqsOf((at(4) + 1) as Sequence)).toEqual([]);
      expect(await seqsOf(at(2), at(2))).toEqual([at(2)]);
    });

    it("reads a long journal whole, and stops early when its reader does", async () => {
      const [id, noise] = [newAgent("long"), newAgent("noise")];
      const [, seqs] = await Promise.all([write(noise, 1_300, "n"), write(id, 2_300)]);
      const events = await read(id);
      expect(events.map((e) => e.seq)).toEqual(seqs);
      expect(events[2_299]?.data).toEqual(message("e2299"));
      let seen = 0;
      for await (const event of b.journal.read(id, { fromSeq: FIRST })) {
        expect(event.seq).toBe(seqs[seen]);
        if (++seen === 1_500) break;
      }
      expect(await read(id, seqs[2_290])).toHaveLength(10);
    });

    it("reads a journal of large events whole", async () => {
      const id = newAgent("heavy");
      const data = message("heavy", 700_000);
      let last = NONE;
      for (let n = 0; n < 15; n++) last = await stored(append(a, id, data, last));
      const events = await read(id);
      expect(events).toHaveLength(15);
      for (const event of events) expect(Buffer.compare(event.data, data)).toBe(0);
    });

    it("returns the last event, and none for an agent without a journal", async () => {
      const id = newAgent();
      expect(await a.journal.last(id)).toBeUndefined();
      expect(await read(id)).toEqual([]);
      const seqs = await write(id, 3);
      expect(await b.journal.last(id)).toMatchObject({ seq: seqs[2], data: message("e2") });
    });

    it("stores an event past the payload limit whole, under the same conflict rule", async () => {
      const id = newAgent();
      const large = message("large", LARGE_BYTES);
      const first = await stored(append(a, id, message("small"), NONE));
      expect(await append(a, id, large, NONE)).toEqual({ _tag: "Conflict" });
      const second = await stored(append(a, id, large, first));
      await stored(append(a, id, message("after"), second));
      const events = await read(id);
      expect(events.map((e) => e.data.length)).toEqual([
        message("small").length,
        large.length,
        message("after").length,
      ]);
      expect(Buffer.compare(events[1]?.data ?? large.subarray(1), large)).toBe(0);
    });

    it.each([-1, 0, 1])("stores an event at the payload limit (%i bytes off)", async (off) => {
      const id = newAgent();
      const overhead = message("edge", 0).length;
      const data = message("edge", a.bus.payloadBytesMax - overhead + off);
      await stored(append(a, id, data, NONE));
      const [event] = await read(id);
      expect(Buffer.compare(event?.data ?? new Uint8Array(0), data)).toBe(0);
      const last = await a.journal.last(id);
      expect(Buffer.compare(last?.data ?? new Uint8Array(0), data)).toBe(0);
    });

    it.each(ODD_NAMES)("keeps a journal under a name with %s", async (_, name) => {
      const id = agentId("Odd_Class$", name);
      await write(id, 2);
      expect(await read(id)).toHaveLength(2);
      const large = message("large", LARGE_BYTES / 2);
      await stored(append(a, id, large, (await read(id))[1]?.seq ?? NONE));
      expect((await b.journal.last(id))?.data.length).toBe(large.length);
      expect(await collect(a.journal.list("Odd_Class$"))).toContainEqual({ id, events: 3 });
    });

    it("lists the agents of one class or of all, of one name or of all, with the number of their events", async () => {
      const one = agentId("Listed", "x.y");
      const other = agentId("Listed2", "x.y");
      const third = agentId("Listed2", "x");
      await write(one, 2);
      await write(other, 1);
      await write(third, 1);
      const list = async (className?: string, name?: string) => {
        const found = await collect(b.journal.list(className, name));
        return found.toSorted((p, q) => (addressKey(p.id) < addressKey(q.id) ? -1 : 1));
      };
      expect(await list("Listed")).toEqual([{ id: one, events: 2 }]);
      expect(await list("Nobody")).toEqual([]);
      expect(await list(undefined, "x.y")).toEqual([
        { id: one, events: 2 },
        { id: other, events: 1 },
      ]);
      expect(await list("Listed2", "x")).toEqual([{ id: third, events: 1 }]);
      expect(await list("Listed", "x")).toEqual([]);
      expect(await list()).toEqual(
        expect.arrayContaining([
          { id: one, events: 2 },
          { id: other, events: 1 },
        ]),
      );
    });

    it("trims a prefix, keeps the rest, and appends continue after the last event", async () => {
      const [id, other] = [newAgent(), newAgent()];
      const seqs = await write(id, 5);
      await write(other, 3);
      const [from, last] = [seqs[3] as Sequence, seqs[4] as Sequence];
      expect(await a.journal.trim(id, from)).toBe(3);
      expect((await read(id)).map((e) => e.seq)).toEqual([from, last]);
      expect(await b.journal.first(id)).toMatchObject({ seq: from, data: message("e3") });
      expect(await a.journal.trim(id, from)).toBe(0);
      expect(await append(b, id, message("stale"), seqs[2] as Sequence)).toEqual({
        _tag: "Conflict",
      });
      await stored(append(b, id, message("next"), last));
      expect(await read(id)).toHaveLength(3);
      expect(await read(other)).toHaveLength(3);
    });

    it("never trims the last event", async () => {
      const id = newAgent();
      expect(await a.journal.first(id)).toBeUndefined();
      const [, last = NONE] = await write(id, 2);
      await expect(a.journal.trim(id, (last + 1) as Sequence)).rejects.toBeInstanceOf(RangeError);
      expect(await read(id)).toHaveLength(2);
      expect(await a.journal.trim(id, last)).toBe(1);
      expect(await b.journal.last(id)).toMatchObject({ seq: last });
    });

    it("skips what is trimmed before a read reaches it", async () => {
      const id = newAgent();
      const seqs = [await stored(append(a, id, message("small"), NONE))];
      for (let n = 0; n < 3; n++)
        seqs.push(await stored(append(a, id, message(`large ${n}`, LARGE_BYTES), seqs.at(-1)!)));
      const found: number[] = [];
      for await (const { seq, data } of b.journal.read(id, { fromSeq: FIRST })) {
        found.push(seq);
        if (found.length === 1) await a.journal.trim(id, seqs.at(-1)!);
        else expect(data.length).toBeGreaterThanOrEqual(LARGE_BYTES);
      }
      expect([found[0], found.at(-1)]).toEqual([seqs[0], seqs.at(-1)]);
    });

    it("trims large events whole", async () => {
      const id = newAgent();
      const first = await stored(append(a, id, message("large", LARGE_BYTES), NONE));
      const large = message("larger", LARGE_BYTES + 1);
      const second = await stored(append(a, id, large, first));
      expect(await a.journal.trim(id, second)).toBe(1);
      expect(Buffer.compare((await b.journal.first(id))!.data, large)).toBe(0);
    });

    it("keeps everything when the broker is killed, and appends resume by themselves", async () => {
      const id = newAgent();
      const seqs = await write(id, 5);
      await backend.kill();
      const waiting = append(a, id, message("while away"), seqs[4] as Sequence);
      await backend.until("the loss of the connection", () => !a.bus.connected());
      await backend.restart();
      let result: AppendResult | undefined;
      void waiting.then((r) => (result = r));
      const found = await backend.until("the append's result", () => result);
      expect(found._tag).toBe("Stored");
      await backend.until("the other connection", () => b.bus.connected());
      expect((await read(id)).map((e) => e.data)).toEqual([
        ...seqs.map((_, i) => message(`e${i}`)),
        message("while away"),
      ]);
    });

    it("returns Unknown when the signal fires before the outcome is known", async () => {
      const id = newAgent();
      await backend.kill();
      await backend.until("the loss of the connection", () => !a.bus.connected());
      const stop = new AbortController();
      let result: AppendResult | undefined;
      void a.journal
        .append(id, message("never"), { expectedSeq: NONE, signal: stop.signal })
        .then((r) => (result = r));
      stop.abort();
      expect((await backend.until("the append's end", () => result))._tag).toBe("Unknown");
      await expect(a.journal.last(id)).rejects.toBeInstanceOf(BrokerUnavailable);
      await expect(
        a.journal.read(id, { fromSeq: FIRST })[Symbol.asyncIterator]().next(),
      ).rejects.toBeInstanceOf(BrokerUnavailable);
      await backend.restart();
      await backend.until("the connections", () => a.bus.connected() && b.bus.connected());
      expect(await read(id)).toEqual([]);
    });
  });
}
