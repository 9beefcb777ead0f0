/** The rules of `core/inbox/Inbox`, for any adapter. */
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { BrokerUnavailable } from "../../core/bus/Bus.ts";
import { ConsumerTaken, type Delivery, type PublishResult } from "../../core/inbox/Inbox.ts";
import {
  agentId,
  shardOf,
  type AgentId,
  type Epoch,
  type Sequence,
  type ShardId,
} from "../../schemas/Address.ts";
import { decodeFrame } from "../../schemas/Frame.ts";
import {
  LARGE_BYTES,
  message,
  newShard,
  ODD_NAMES,
  patient,
  SHARDS,
  type Backend,
  type Ports,
} from "./Backend.ts";

const labelOf = (delivery: Delivery): string => String(decodeFrame(delivery.data).head["id"]);

export function inboxRules(makeBackend: () => Promise<Backend>): void {
  describe("the inbox", () => {
    let backend: Backend;
    let a: Ports;
    let b: Ports;
    beforeAll(async () => {
      backend = await makeBackend();
      [a, b] = [await backend.open(), await backend.open()];
    });
    afterAll(() => backend.close());
    let shard: ShardId;
    let agent: (label: string) => AgentId;
    beforeEach(() => {
      ({ shard, agent } = newShard());
    });

    const publish = async (id: AgentId, data: Uint8Array): Promise<Sequence> => {
      const result = await a.inbox.publish(id, data, { signal: patient() });
      if (result._tag !== "Stored") throw new Error(`not stored: ${result.message}`);
      return result.seq;
    };
    const publishAll = async (id: AgentId, labels: readonly string[]): Promise<void> => {
      for (const label of labels) await publish(id, message(label));
    };
    const got = (deliveries: readonly Delivery[], count: number) =>
      backend.until(`${count} deliveries`, () =>
        deliveries.length >= count
          ? { done: true as const, value: deliveries }
          : { done: false as const, saw: deliveries.map(labelOf) },
      );

    it("delivers everything stored, before or after consuming began, in order for each agent", async () => {
      const [x, y] = [agent("x"), agent("y")];
      await publishAll(x, ["x1", "x2"]);
      await publishAll(y, ["y1"]);
      const deliveries: Delivery[] = [];
      const consumer = await b.inbox.consume(shard, (d) => deliveries.push(d));
      await publishAll(x, ["x3", "x4"]);
      await publishAll(y, ["y2"]);
      await got(deliveries, 6);
      const of = (id: AgentId) => deliveries.filter((d) => d.id.name === id.name).map(labelOf);
      expect(of(x)).toEqual(["x1", "x2", "x3", "x4"]);
      expect(of(y)).toEqual(["y1", "y2"]);
      expect(deliveries.map((d) => d.deliveries)).toEqual([1, 1, 1, 1, 1, 1]);
      expect(deliveries[0]?.id).toEqual(x);
      for (const d of deliveries) d.ack();
      await consumer.stop();
    });

    it("delivers nothing of another shard", async () => {
      const [one, other] = [newShard(), newShard()];
      const deliveries: Delivery[] = [];
      const consumer = await a.inbox.consume(one.shard, (d) => deliveries.push(d));
      await publish(other.agent("o"), message("theirs"));
      await publish(one.agent("m"), message("mine"));
      await got(deliveries, 1);
      expect(deliveries.map(labelOf)).toEqual(["mine"]);
      deliveries[0]?.ack();
      await consumer.stop();
    });

    it("delivers the previous consumer's unacked messages again at once after a take-over, and acked ones never", async () => {
      const id = agent("t");
      await publishAll(id, ["1", "2", "3", "4", "5"]);
      const before: Delivery[] = [];
      await a.inbox.consume(shard, (d) => before.push(d));
      await got(before, 5);
      before[0]?.ack();
      before[2]?.ack();
      await backend.until("the acks", async () => {
        const left = await Promise.all(before.map((d) => b.inbox.get(d.id, d.seq)));
        return left.filter((data) => data === undefined).length === 2;
      });
      const startedMs = backend.nowMs();
      const after: Delivery[] = [];
      const consumer = await b.inbox.consume(shard, (d) => after.push(d));
      await got(after, 3);
      // Nothing that waits for a timeout of the broker's comes this soon.
      expect(backend.nowMs() - startedMs).toBeLessThan(2_000);
      expect(after.map(labelOf)).toEqual(["2", "4", "5"]);

      await publishAll(id, ["6", "7"]);
      await got(after, 5);
      expect(after.map(labelOf)).toEqual(["2", "4", "5", "6", "7"]);
      // The previous one no longer pulls, although it was never stopped.
      expect(before.map(labelOf)).toEqual(["1", "2", "3", "4", "5"]);
      for (const d of after) d.ack();
      await consumer.stop();
    });

    it("delivers everything to the last of several consumers that take over one shard at once", async () => {
      const id = agent("race");
      await publishAll(id, ["1", "2", "3"]);
      const consumers: Delivery[][] = [[], [], [], []];
      await Promise.all(
        consumers.map((consumer, n) =>
          (n % 2 ? a : b).inbox.consume(shard, (d) => consumer.push(d)),
        ),
      );
      const winner = await backend.until("one that has all", () =>
        consumers.find((consumer) => consumer.length === 3),
      );
      await publish(id, message("4"));
      const owner = await backend.until("the owner of the next", () =>
        consumers.find((consumer) => consumer.some((d) => labelOf(d) === "4")),
      );
      expect(owner.map(labelOf)).toEqual(["1", "2", "3", "4"]);
      expect(winner.length).toBeGreaterThanOrEqual(3);
      for (const d of owner) d.ack();
    });

    it("refuses a take-over by an earlier epoch, and allows one by a later epoch", async () => {
      const id = agent("epochs");
      await publish(id, message("1"));
      const consumers: Delivery[][] = [[], [], []];
      const of = (epoch: number) => ({ epoch: epoch as Epoch });
      const second = await a.inbox.consume(shard, (d) => consumers[1]!.push(d), of(12));
      await got(consumers[1]!, 1);
      const late = b.inbox.consume(shard, (d) => consumers[0]!.push(d), of(9));
      await expect(late).rejects.toBeInstanceOf(ConsumerTaken);
      await publish(id, message("2"));
      await got(consumers[1]!, 2);
      const third = await b.inbox.consume(shard, (d) => consumers[2]!.push(d), of(100));
      await got(consumers[2]!, 2);
      expect(consumers.map((consumer) => consumer.map(labelOf))).toEqual([
        [],
        ["1", "2"],
        ["1", "2"],
      ]);
      for (const d of consumers[2]!) d.ack();
      await second.stop();
      await third.stop();
    });

    it("abandons a take-over when its signal fires, and leaves the consumer to the next", async () => {
      const early = AbortSignal.abort();
      const refused = a.inbox.consume(shard, () => undefined, { signal: early });
      await expect(refused).rejects.toBeInstanceOf(BrokerUnavailable);
      const stop = new AbortController();
      const given = a.inbox.consume(shard, () => undefined, { signal: stop.signal });
      stop.abort();
      await expect(given).rejects.toBeInstanceOf(BrokerUnavailable);
      await publishAll(agent("g"), ["1"]);
      const seen: Delivery[] = [];
      const next = await b.inbox.consume(shard, (d) => seen.push(d));
      await got(seen, 1);
      seen[0]?.ack();
      await next.stop();
    });

    it("begins no delivery after stop, and delivers what was not acked to the next consumer", async () => {
      const id = agent("s");
      await publishAll(id, ["1", "2", "3"]);
      const before: Delivery[] = [];
      const first = await a.inbox.consume(shard, (d) => before.push(d));
      await got(before, 3);
      before[1]?.ack();
      await first.stop();
      await publish(id, message("4"));
      const after: Delivery[] = [];
      const second = await a.inbox.consume(shard, (d) => after.push(d));
      await got(after, 3);
      expect(after.map(labelOf)).toEqual(["1", "3", "4"]);
      expect(before).toHaveLength(3);
      for (const d of after) d.ack();
      await second.stop();
    });

    it("delivers again after a nak's delay, not sooner, and counts it", async () => {
      await publish(agent("n"), message("later"));
      const deliveries: Delivery[] = [];
      const consumer = await a.inbox.consume(shard, (d) => deliveries.push(d));
      await got(deliveries, 1);
      const putOffMs = backend.nowMs();
      deliveries[0]?.nak(300);
      await got(deliveries, 2);
      expect(backend.nowMs() - putOffMs).toBeGreaterThanOrEqual(290);
      expect(deliveries[1]?.deliveries).toBe(2);
      deliveries[1]?.nak(0);
      await got(deliveries, 3);
      expect(deliveries[2]?.deliveries).toBe(3);
      deliveries[2]?.ack();
      await consumer.stop();
    });

    it("returns a stored envelope by its sequence, and nothing once it is acked", async () => {
      const id = agent("g");
      const seq = await publish(id, message("again"));
      expect(await b.inbox.get(id, seq)).toEqual(message("again"));
      const deliveries: Delivery[] = [];
      const consumer = await a.inbox.consume(shard, (d) => deliveries.push(d));
      await got(deliveries, 1);
      expect(deliveries[0]?.seq).toBe(seq);
      expect(await b.inbox.get(id, seq)).toEqual(message("again"));
      deliveries[0]?.ack();
      await backend.until("the ack", async () => (await b.inbox.get(id, seq)) === undefined);
      expect(await b.inbox.get(id, (seq + 1_000_000) as Sequence)).toBeUndefined();
      await consumer.stop();
    });

    it("counts what is stored and not acked as its depth", async () => {
      const before = await a.inbox.depth();
      await publishAll(agent("d"), ["1", "2", "3"]);
      expect(await a.inbox.depth()).toBe(before + 3);
      const consumer = await a.inbox.consume(shard, (d) => d.ack());
      await backend.until("the acks", async () => (await a.inbox.depth()) === before);
      await consumer.stop();
    });

    it("delivers an envelope past the payload limit whole and in its place", async () => {
      const id = agent("large");
      const large = message("large", LARGE_BYTES);
      const deliveries: Delivery[] = [];
      const consumer = await b.inbox.consume(shard, (d) => deliveries.push(d));
      await publish(id, message("before"));
      const seq = await publish(id, large);
      await publish(id, message("after"));
      await got(deliveries, 3);
      expect(deliveries.map(labelOf)).toEqual(["before", "large", "after"]);
      expect(Buffer.compare(deliveries[1]?.data ?? new Uint8Array(0), large)).toBe(0);
      expect((await a.inbox.get(id, seq))?.length).toBe(large.length);
      for (const d of deliveries) d.ack();
      await consumer.stop();
    });

    it.each(ODD_NAMES)("delivers to an agent whose name has %s", async (_, name) => {
      const id = agentId("Odd_Class$", name);
      const deliveries: Delivery[] = [];
      const consumer = await b.inbox.consume(shardOf(id, SHARDS), (d) => {
        if (d.id.class === id.class) deliveries.push(d);
      });
      await publish(id, message("odd"));
      await publish(id, message("large", LARGE_BYTES / 2));
      await got(deliveries, 2);
      expect(deliveries.map((d) => d.id)).toEqual([id, id]);
      for (const d of deliveries) d.ack();
      await consumer.stop();
    });

    it("delivers everything stored after the broker was killed, held and acked messages only once", async () => {
      const id = agent("k");
      const labels = (from: number, to: number): string[] =>
        Array.from({ length: to - from }, (_, n) => String(from + n));
      await publishAll(id, labels(0, 100));
      const deliveries: Delivery[] = [];
      const consumer = await b.inbox.consume(shard, (d) => deliveries.push(d));
      await got(deliveries, 100);
      for (const d of deliveries.slice(0, 50)) d.ack();
      await backend.kill();
      await backend.until(
        "the loss of the connections",
        () => !a.bus.connected() && !b.bus.connected(),
      );
      for (const d of deliveries.slice(50, 60)) d.ack(); // these acks are lost
      let late: PublishResult | undefined;
      void a.inbox.publish(id, message("100"), { signal: patient() }).then((r) => (late = r));
      await backend.restart();
      expect((await backend.until("the late publish", () => late))._tag).toBe("Stored");
      await publishAll(id, labels(101, 150));
      await got(deliveries, 150);
      expect(deliveries.map(labelOf)).toEqual(labels(0, 150));
      for (const d of deliveries) d.ack();
      await backend.until("an empty inbox of this agent", async () => {
        const left = await Promise.all(deliveries.map((d) => b.inbox.get(d.id, d.seq)));
        const count = left.filter((data) => data !== undefined).length;
        return count === 0 ? { done: true, value: 0 } : { done: false, saw: `${count} left` };
      });
      await consumer.stop();
    });

    it("returns Unavailable from publish when the signal fires while the broker is away", async () => {
      const id = agent("u");
      await backend.kill();
      await backend.until("the loss of the connection", () => !a.bus.connected());
      const stop = new AbortController();
      let result: PublishResult | undefined;
      void a.inbox.publish(id, message("x"), { signal: stop.signal }).then((r) => (result = r));
      stop.abort();
      expect((await backend.until("its end", () => result))._tag).toBe("Unavailable");
      await expect(a.inbox.get(id, 1 as Sequence)).rejects.toBeInstanceOf(BrokerUnavailable);
      await expect(a.inbox.consume(shard, () => undefined)).rejects.toBeInstanceOf(
        BrokerUnavailable,
      );
      await backend.restart();
      await backend.until("the connection", () => a.bus.connected());
    });
  });
}
