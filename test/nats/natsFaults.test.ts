/** What only a real broker and network can do to the NATS adapters, at the moments that matter. */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { Delivery } from "../../core/inbox/Inbox.ts";
import type { AppendResult } from "../../core/journal/Journal.ts";
import type { AgentId, Epoch, Sequence } from "../../schemas/Address.ts";
import { decodeFrame } from "../../schemas/Frame.ts";
import { Subjects } from "../../schemas/Subjects.ts";
import { openNats } from "../../services/nats/setup/openNats.ts";
import { openConnection } from "../../services/nats/client/NatsConnection.ts";
import { faultyLink, type FaultyLink } from "./FaultyLink.ts";
import {
  LARGE_BYTES,
  message,
  newAgent,
  newShard,
  patient,
  type Ports,
} from "../conformance/Backend.ts";
import { arrived } from "../kit/arrived.ts";
import { natsBackend, type NatsBackend } from "../conformance/natsBackend.ts";

/** Cuts of a link, each after some traffic: a new connection takes a quarter of a second. */
const CUTS_MAX = 20;
/** Longer than a busy machine stands still; one test waits until one has ended. */
const LEASE_TTL_MS = 3_000;
const NONE = 0 as Sequence;
const labelOf = (d: { readonly data: Uint8Array }): string =>
  String(decodeFrame(d.data).head["id"]);

describe("nats, faults", () => {
  let backend: NatsBackend;
  let direct: Ports;
  let linked: Ports;
  let link: FaultyLink;
  beforeAll(async () => {
    backend = await natsBackend({ leaseTtlMs: LEASE_TTL_MS });
    link = await faultyLink(backend.server.port);
    [direct, linked] = [await backend.open(), await backend.openAt(link.url)];
  });
  afterAll(async () => {
    await backend.close();
    await link.close();
  });

  const begin = (id: AgentId, data: Uint8Array, expectedSeq = NONE) => {
    const append: { result?: AppendResult } = {};
    void linked.journal
      .append(id, data, { expectedSeq, signal: patient() })
      .then((result) => (append.result = result));
    return () => backend.until("the append's outcome", () => append.result);
  };
  const journal = async (id: AgentId): Promise<string[]> => {
    const labels = [];
    for await (const event of direct.journal.read(id, { fromSeq: 1 as Sequence }))
      labels.push(labelOf(event));
    return labels;
  };
  const healed = () => backend.until("the link", () => linked.bus.connected());
  /** Waits for the next connection: the client may be back before anybody sees it away. */
  const cutAndHeal = async (): Promise<void> => {
    const before = link.accepted();
    link.cut();
    await backend.until("a new connection", () => link.accepted() > before);
    await backend.until("an answer through it", () => arrived(linked.bus).then(() => true));
  };

  describe("an append whose ack was lost", () => {
    it("was stored: it is found by reading, and not appended again", async () => {
      const id = newAgent();
      link.swallow("toClient");
      const outcome = begin(id, message("ours"));
      const last = await backend.until("the event", () => direct.journal.last(id));
      await backend.until("a swallowed ack", () => link.swallowed("toClient") > 0);
      link.cut();
      expect(await outcome()).toEqual({ _tag: "Stored", seq: last.seq });
      expect(await journal(id)).toEqual(["ours"]);
    });

    it("was stored, and another event was appended behind it: it is still found", async () => {
      const id = newAgent();
      await healed();
      link.swallow("toClient");
      const outcome = begin(id, message("ours"));
      const last = await backend.until("the event", () => direct.journal.last(id));
      const options = { expectedSeq: last.seq, signal: patient() };
      expect((await direct.journal.append(id, message("theirs"), options))._tag).toBe("Stored");
      link.cut();
      expect(await outcome()).toEqual({ _tag: "Stored", seq: last.seq });
      expect(await journal(id)).toEqual(["ours", "theirs"]);
    });

    it("never arrived: it is appended again, once", async () => {
      const id = newAgent();
      await healed();
      link.swallow("toServer");
      const outcome = begin(id, message("ours"));
      await backend.until("a swallowed append", () => link.swallowed("toServer") > 0);
      expect(await direct.journal.last(id)).toBeUndefined();
      link.cut();
      expect((await outcome())._tag).toBe("Stored");
      expect(await journal(id)).toEqual(["ours"]);
    });

    it("never arrived, and another event came first: Conflict", async () => {
      const id = newAgent();
      await healed();
      const before = link.swallowed("toServer");
      link.swallow("toServer");
      const outcome = begin(id, message("ours"));
      await backend.until("a swallowed append", () => link.swallowed("toServer") > before);
      const options = { expectedSeq: NONE, signal: patient() };
      expect((await direct.journal.append(id, message("theirs"), options))._tag).toBe("Stored");
      link.cut();
      expect(await outcome()).toEqual({ _tag: "Conflict" });
      expect(await journal(id)).toEqual(["theirs"]);
    });

    it("is large: it is stored once, whole", async () => {
      const id = newAgent();
      await healed();
      const outcome = begin(id, message("large", LARGE_BYTES));
      link.cut();
      expect((await outcome())._tag).toBe("Stored");
      expect(await journal(id)).toEqual(["large"]);
      expect((await direct.journal.last(id))?.data.length).toBe(
        message("large", LARGE_BYTES).length,
      );
    });

    it("went to a frozen broker that was then killed: it is appended again, once", async () => {
      const ids = Array.from({ length: 20 }, () => newAgent());
      await healed();
      backend.server.freeze();
      const outcomes = ids.map((id) => begin(id, message("ours")));
      await backend.kill();
      await backend.restart();
      for (const outcome of outcomes) expect((await outcome())._tag).toBe("Stored");
      await backend.until("the direct connection", () => direct.bus.connected());
      for (const id of ids) expect(await journal(id)).toEqual(["ours"]);
    });

    it("is one of many under repeated cuts: every one is stored exactly once", async () => {
      await healed();
      const ids = Array.from({ length: 10 }, () => newAgent());
      let running = true;
      let stored = 0;
      const writers = ids.map(async (id) => {
        let expectedSeq = NONE;
        for (let n = 0; n < 60; n++) {
          const options = { expectedSeq, signal: patient() };
          const result = await linked.journal.append(id, message(`${n}`), options);
          if (result._tag !== "Stored") throw new Error(`${n}: ${JSON.stringify(result)}`);
          expectedSeq = result.seq;
          stored++;
        }
      });
      const all = Promise.all(writers).finally(() => (running = false));
      let [cuts, storedThen] = [0, 0];
      await backend.until("all appends", () => {
        const isMore = stored > storedThen;
        if (running && cuts < CUTS_MAX && isMore && linked.bus.connected()) {
          link.cut();
          cuts++;
          storedThen = stored;
        }
        return !running;
      });
      await all;
      expect(cuts).toBeGreaterThan(1);
      const wanted = Array.from({ length: 60 }, (_, n) => `${n}`);
      for (const id of ids) expect(await journal(id)).toEqual(wanted);
    });
  });

  describe("a consumer of the inbox", () => {
    const publish = async (id: AgentId, labels: readonly string[]): Promise<void> => {
      for (const label of labels) {
        const result = await direct.inbox.publish(id, message(label), { signal: patient() });
        expect(result._tag).toBe("Stored");
      }
    };
    const labels = (from: number, to: number): string[] =>
      Array.from({ length: to - from }, (_, n) => String(from + n));

    it("receives again, in order and once each, what was lost when its connection broke", async () => {
      const { shard, agent } = newShard();
      const id = agent("lost");
      await healed();
      const deliveries: Delivery[] = [];
      const consumer = await linked.inbox.consume(shard, (d) => deliveries.push(d));
      await publish(id, labels(0, 20));
      await backend.until("the first twenty", () => deliveries.length === 20);
      for (const d of deliveries.slice(0, 10)) d.ack();
      const before = link.swallowed("toClient");
      link.swallow("toClient");
      await publish(id, labels(20, 60));
      await backend.until("lost deliveries", () => link.swallowed("toClient") > before);
      link.cut();
      await backend.until("all sixty", () =>
        deliveries.length >= 60
          ? { done: true as const, value: 0 }
          : { done: false as const, saw: deliveries.map(labelOf) },
      );
      expect(deliveries.map(labelOf)).toEqual(labels(0, 60));
      for (const d of deliveries) d.ack();
      await backend.until("the acks", async () => {
        const left = await Promise.all(deliveries.map((d) => direct.inbox.get(d.id, d.seq)));
        return left.every((data) => data === undefined);
      });
      await consumer.stop();
    });

    it("whose host is partitioned delivers nothing after another took over, even when it returns", async () => {
      const { shard, agent } = newShard();
      const id = agent("zombie");
      await healed();
      const zombie: Delivery[] = [];
      const stale = await linked.inbox.consume(shard, (d) => zombie.push(d));
      await publish(id, ["1"]);
      await backend.until("its first", () => zombie.length === 1);
      link.swallow("toClient", "toServer"); // as if frozen: its pull requests are still open
      const deliveries: Delivery[] = [];
      const consumer = await direct.inbox.consume(shard, (d) => deliveries.push(d));
      await publish(id, ["2", "3"]);
      await backend.until("everything", () => deliveries.length === 3);
      expect(deliveries.map(labelOf)).toEqual(["1", "2", "3"]);
      await cutAndHeal();
      await arrived(linked.bus);
      zombie[0]?.ack(); // counts for nothing: the message is the new owner's
      await arrived(linked.bus);
      await publish(id, ["4"]);
      await backend.until("the fourth", () => deliveries.length === 4);
      expect(zombie.map(labelOf)).toEqual(["1"]);
      expect(await direct.inbox.get(id, deliveries[0]?.seq ?? NONE)).toBeDefined();
      for (const d of deliveries) d.ack();
      await stale.stop();
      await publish(id, ["5"]);
      await backend.until("the fifth", () => deliveries.length === 5);
      deliveries[4]?.ack();
      await consumer.stop();
    });

    it("left by a host that took over too late and died returns to its later owner", async () => {
      const { shard, agent } = newShard();
      const id = agent("late");
      await healed();
      const deliveries: Delivery[] = [];
      const of = (epoch: number) => ({ epoch: epoch as Epoch });
      const owner = await direct.inbox.consume(shard, (d) => deliveries.push(d), of(12));
      // The late one looked before its successor's consumer was there.
      const admin = await openConnection({ servers: backend.server.url }, () => undefined);
      const { api, subjects } = await openNats(admin, new Subjects());
      const { inbox } = subjects.stream;
      const { consumers } = await api.call<{ consumers: string[] }>(`CONSUMER.NAMES.${inbox}`);
      for (const name of consumers.filter((each) => each.startsWith(`shard-${shard}-`)))
        await api.call(`CONSUMER.DELETE.${inbox}.${name}`);
      await admin.close();
      const late = await linked.inbox.consume(shard, () => undefined, of(9));
      link.swallow("toClient", "toServer");
      await publish(id, ["1"]);
      await backend.until("the owner's", () => deliveries.length === 1);
      deliveries[0]?.ack();
      await cutAndHeal();
      await publish(id, ["2"]);
      await backend.until("the owner's next", () => deliveries.length === 2);
      deliveries[1]?.ack();
      await late.stop();
      await owner.stop();
    });

    it("keeps a delayed input delayed across a broken connection", async () => {
      const { shard, agent } = newShard();
      await healed();
      const deliveries: Delivery[] = [];
      const consumer = await linked.inbox.consume(shard, (d) => deliveries.push(d));
      await publish(agent("nak"), ["later"]);
      await backend.until("it", () => deliveries.length === 1);
      const startedMs = backend.nowMs();
      deliveries[0]?.nak(1_500);
      link.cut();
      await backend.until("it again", () => deliveries.length === 2);
      expect(backend.nowMs() - startedMs).toBeGreaterThanOrEqual(1_490);
      expect(deliveries[1]?.deliveries).toBe(2);
      deliveries[1]?.ack();
      await consumer.stop();
    });
  });

  it("a watch that was disconnected learns that a lease is gone, even without any trace of it", async () => {
    await healed();
    const claimed = await direct.leases.claim("shard.traceless", "h1");
    expect(claimed._tag).toBe("Claimed");
    const stop = new AbortController();
    const values: Array<string | undefined> = [];
    await linked.leases.watch(({ key, value }) => {
      if (key === "shard.traceless") values.push(value);
    }, stop.signal);
    expect(values).toEqual(["h1"]);
    link.swallow("toClient", "toServer");
    const admin = await openConnection({ servers: backend.server.url }, () => undefined);
    const nats = await openNats(admin, new Subjects());
    const { leases } = nats.subjects.bucket;
    await nats.api.call(`STREAM.PURGE.KV_${leases}`, { filter: `$KV.${leases}.shard.traceless` });
    await admin.close();
    await cutAndHeal();
    await backend.until("the news", () =>
      values.length > 1 ? { done: true as const, value: 0 } : { done: false as const, saw: values },
    );
    expect(values).toEqual(["h1", undefined]);
    stop.abort();
  });

  it("an unrenewed lease ends for a watch, even if its replica never expires it", async () => {
    await healed();
    const admin = await openConnection({ servers: backend.server.url }, () => undefined);
    const { api, subjects } = await openNats(admin, new Subjects());
    const stream = `KV_${subjects.bucket.leases}`;
    const { config } = await api.call<{ config: object }>(`STREAM.INFO.${stream}`);
    await api.call(`STREAM.UPDATE.${stream}`, {
      ...config,
      max_age: 0,
      subject_delete_marker_ttl: 0,
    });
    const ghost = await direct.leases.claim("host.ghost", "ghost");
    const alive = await direct.leases.claim("host.alive", "alive");
    if (ghost._tag !== "Claimed" || alive._tag !== "Claimed") throw new Error("held");
    const stop = new AbortController();
    const told: unknown[] = [];
    await linked.leases.watch(({ key, value }) => void told.push([key, value]), stop.signal);
    await backend.until("the news", async () => {
      await direct.leases.renew(alive.lease);
      return (
        told.some((each) => String(each) === "host.ghost,") || { done: false as const, saw: told }
      );
    });
    expect(told).not.toContainEqual(["host.alive", undefined]);
    expect((await direct.leases.list("host.")).map(({ key }) => key)).toEqual(["host.alive"]);
    stop.abort();
    await direct.leases.release(ghost.lease);
    await direct.leases.release(alive.lease);
    await api.call(`STREAM.UPDATE.${stream}`, config);
    await admin.close();
  });

  it("a release leaves no expiry marker that could come late and delete the next claim", async () => {
    const admin = await openConnection({ servers: backend.server.url }, () => undefined);
    const { api, subjects } = await openNats(admin, new Subjects());
    const subject = `$KV.${subjects.bucket.leases}.shard.released`;
    const stored = async () => {
      const filter = { subjects_filter: subject };
      const stream = `STREAM.INFO.KV_${subjects.bucket.leases}`;
      const { state } = await api.call<{ state: { subjects?: Record<string, number> } }>(
        stream,
        filter,
      );
      return state.subjects?.[subject] ?? 0;
    };
    const claimed = await direct.leases.claim("shard.released", "h1");
    if (claimed._tag !== "Claimed") throw new Error("held");
    await direct.leases.release(claimed.lease);
    expect(await stored()).toBe(1);
    // This one runs out after it, and has a marker: for a minute, as the other would.
    const stop = new AbortController();
    let isOver = false;
    await direct.leases.claim("shard.after", "h1");
    await direct.leases.watch(({ key, value }) => {
      if (key === "shard.after" && value === undefined) isOver = true;
    }, stop.signal);
    await backend.until("the end of the later one", () => isOver);
    stop.abort();
    expect(await stored()).toBe(0);
    await admin.close();
  });

  it("a renewal whose ack was lost does not lose the lease", async () => {
    await healed();
    const claimed = await linked.leases.claim("shard.renewal", "h1");
    if (claimed._tag !== "Claimed") throw new Error("held");
    const before = link.swallowed("toClient");
    link.swallow("toClient");
    const renewal = linked.leases.renew(claimed.lease, "h1 again").catch((error: unknown) => error);
    await backend.until("the renewal in the store", async () => {
      const [lease] = await direct.leases.list("shard.renewal");
      return lease?.value === "h1 again";
    });
    expect(link.swallowed("toClient")).toBeGreaterThan(before);
    await cutAndHeal();
    await renewal; // Renewed or BrokerUnavailable, as the reconnect goes
    expect(await linked.leases.renew(claimed.lease)).toEqual({ _tag: "Renewed" });
    const [lease] = await direct.leases.list("shard.renewal");
    expect(lease?.epoch).toBe(claimed.lease.epoch);
    await linked.leases.release(claimed.lease);
  });
});
