/** Requests and answers that go together (`RequestBatcher`) are what they were each by itself. */
import fc from "../kit/property.ts";
import { describe, expect, test } from "vitest";
import type { BusReply } from "../../core/bus/Bus.ts";
import { makeNatsBus } from "../../services/nats/NatsBus.ts";
import {
  encodeBatch,
  entryBytesMax,
  Kind,
  readBatch,
  type Entry,
} from "../../services/nats/layout/batchEntries.ts";
import { agentId, shardOf } from "../../schemas/Address.ts";
import { CallClient } from "../../core/call/CallClient.ts";
import { Subjects } from "../../schemas/Subjects.ts";
import { pollUntil } from "../kit/poll.ts";
import { LEASE_TTL_MS, SHARDS } from "../conformance/Backend.ts";
import { useNats } from "./useNats.ts";

const bytes = (text: string): Uint8Array => new TextEncoder().encode(text);
const told = (reply: BusReply): string =>
  reply._tag === "Reply" ? new TextDecoder().decode(reply.data) : reply._tag;

describe("batches of requests", () => {
  const used = useNats();

  /** A process, and what it has published: subjects, in order. */
  async function open() {
    const nats = await used.open(new Subjects(), { shards: SHARDS, leaseTtlMs: LEASE_TTL_MS });
    const published: string[] = [];
    const { connection } = nats;
    const { client } = connection;
    const publish = client.publish.bind(client);
    client.publish = (subject, ...rest) => {
      published.push(subject);
      publish(subject, ...rest);
    };
    return { bus: makeNatsBus(nats), connection, published };
  }
  type Process = Awaited<ReturnType<typeof open>>;

  const echo = async ({ bus, connection }: Process, pattern: string, as = "") => {
    const seen: string[] = [];
    const close = bus.subscribe(
      pattern,
      ({ subject, data, reply }) => {
        const text = new TextDecoder().decode(data);
        seen.push(text);
        if (text !== "silent") bus.answer(reply!, bytes(`${as}${subject} ${text}`));
      },
      { alone: true },
    );
    await connection.client.flush();
    return { seen, close };
  };
  const ask = ({ bus }: Process, subject: string, text: string, timeoutMs = 5_000) =>
    bus.request(subject, bytes(text), { timeoutMs }).then(told);
  /** Asks until batches are in use: a pass's requests are one message then. */
  const introduce = (from: Process, subject: string, signal = new AbortController().signal) =>
    pollUntil("batches", async () => {
      from.published.length = 0;
      const request = () => from.bus.request(subject, bytes("x"), { timeoutMs: 5_000, signal });
      await Promise.all([request(), request()]);
      return from.published.length === 1 || { done: false, saw: from.published };
    });
  const numbers = (count: number) => Array.from({ length: count }, (_, n) => String(n));

  test("sends the requests and answers of one pass as one message each, in order, each with its own answer", async () => {
    const [host, gateway] = [await open(), await open()];
    const { seen, close } = await echo(host, "agents.call.together.>");
    await introduce(gateway, "agents.call.together.x");
    seen.length = gateway.published.length = host.published.length = 0;
    const answers = await Promise.all(
      numbers(50).map((n) => ask(gateway, `agents.call.together.${n}`, n)),
    );
    expect(answers).toEqual(numbers(50).map((n) => `agents.call.together.${n} ${n}`));
    expect(seen).toEqual(numbers(50));
    expect(gateway.published).toHaveLength(1);
    expect(host.published).toHaveLength(1);
    await close();
  });

  test("a caller that asks rarely is offered none", async () => {
    const [host, once] = [await open(), await open()];
    const { close } = await echo(host, "agents.call.seldom.>");
    for (let n = 0; n < 10; n++) await ask(once, "agents.call.seldom.x", "x");
    once.published.length = 0;
    await Promise.all([
      ask(once, "agents.call.seldom.x", "a"),
      ask(once, "agents.call.seldom.x", "b"),
    ]);
    expect(once.published).toEqual(["agents.call.seldom.x", "agents.call.seldom.x"]);
    await close();
  });

  test("large requests and answers go by themselves, those of one process in order", async () => {
    const [host, gateway] = [await open(), await open()];
    const { seen, close } = await echo(host, "agents.call.sizes.>");
    await introduce(gateway, "agents.call.sizes.x");
    seen.length = gateway.published.length = 0;
    const sizes = [1, 20_000, 2, 500_000, 3, 15_000, 15_000, 15_000, 4];
    const texts = sizes.map((size, n) => `${n}`.padEnd(size, "."));
    const answers = await Promise.all(
      texts.map((text) => ask(gateway, "agents.call.sizes.x", text)),
    );
    expect(answers).toEqual(texts.map((text) => `agents.call.sizes.x ${text}`));
    expect(seen).toEqual(texts);
    expect(gateway.published.filter((subject) => subject === "agents.call.sizes.x")).toHaveLength(
      2,
    );
    await close();
  });

  test("once the listener has ended nothing is delivered, and another that listens then is found", async () => {
    const [host, next, gateway] = [await open(), await open(), await open()];
    const { seen, close } = await echo(host, "agents.call.ended.>");
    await introduce(gateway, "agents.call.ended.x");
    await close();
    seen.length = 0;
    expect(
      await Promise.all(["a", "b"].map((text) => ask(gateway, "agents.call.ended.x", text))),
    ).toEqual(["NoResponders", "NoResponders"]);
    const second = await echo(next, "agents.call.ended.>", "next: ");
    expect(await ask(gateway, "agents.call.ended.x", "c")).toBe("next: agents.call.ended.x c");
    expect(seen).toEqual([]);
    await second.close();
  });

  test("a missing process: its batches arrive nowhere, and each request fails at once", async () => {
    const [host, next, gateway] = [await open(), await open(), await open()];
    await echo(host, "agents.call.gone.>");
    await echo(host, "agents.call.gone-too.>");
    await introduce(gateway, "agents.call.gone.x");
    await introduce(gateway, "agents.call.gone-too.x");
    await host.connection.close();
    await pollUntil("the broker knows", async () => {
      const answer = await ask(next, "agents.call.gone.x", "x", 200);
      return answer === "NoResponders" || { done: false, saw: answer };
    });
    expect(
      await Promise.all(numbers(30).map((n) => ask(gateway, "agents.call.gone.x", n))),
    ).toEqual(numbers(30).map(() => "NoResponders"));
    await echo(next, "agents.call.gone-too.>", "next: ");
    expect(await ask(gateway, "agents.call.gone-too.x", "a")).toBe(
      "next: agents.call.gone-too.x a",
    );
  });

  test("a process that ends leaves no request waiting", async () => {
    const gateway = await open();
    for (let round = 0; round < 3; round++) {
      const host = await open();
      const { close } = await echo(host, "agents.call.leaves.>");
      await introduce(gateway, "agents.call.leaves.x");
      await close();
      const answers = numbers(3).map((text) => ask(gateway, "agents.call.leaves.x", text, 2_000));
      // It is written, and not yet read.
      await new Promise(setImmediate);
      const isGone = host.connection.close();
      expect(new Set(await Promise.all(answers))).toEqual(new Set(["NoResponders"]));
      await isGone;
    }
  });

  test("a process that does not answer, or may be a new one, is not asked singly again", async () => {
    const [frozen, owner, gateway] = [await open(), await open(), await open()];
    for (const pattern of ["agents.call.late.>", "agents.call.lost.>"]) {
      const subject = pattern.replace(">", "x");
      const lost = new AbortController();
      await echo(frozen, pattern, "former: ");
      await introduce(gateway, subject, lost.signal);
      // Both listen now, as a former owner does that does not know it yet: by itself, a request
      // reaches both.
      const { seen, close } = await echo(owner, pattern);
      if (pattern === "agents.call.late.>")
        expect(await ask(gateway, subject, "silent", 100)).toBe("TimedOut");
      else lost.abort();
      expect(seen).toEqual([]);
      await ask(gateway, subject, "b");
      await pollUntil("the owner is asked", () => seen.length === 1 || { done: false, saw: seen });
      await close();
    }
  });

  test("what is asked once the signal has fired does not overtake what was asked before", async () => {
    const [host, gateway] = [await open(), await open()];
    const { seen, close } = await echo(host, "agents.call.order.>");
    const lost = new AbortController();
    await introduce(gateway, "agents.call.order.x", lost.signal);
    seen.length = 0;
    const first = [
      ask(gateway, "agents.call.order.x", "a"),
      ask(gateway, "agents.call.order.x", "b"),
    ];
    lost.abort();
    await Promise.all([...first, ask(gateway, "agents.call.order.x", "c")]);
    expect(seen).toEqual(["a", "b", "c"]);
    await close();
  });

  test("the signal of a shard's requests fires when its lease is lost, and not when it is released", async () => {
    const signals: AbortSignal[] = [];
    const bus = {
      request: (_subject: string, _data: Uint8Array, options: { readonly signal: AbortSignal }) => {
        signals.push(options.signal);
        return Promise.resolve({ _tag: "NoResponders" });
      },
    };
    const calls = new CallClient({ bus, subjects: new Subjects(), shards: SHARDS } as never);
    const id = agentId("A", "x");
    const change = { key: `shard.${shardOf(id, SHARDS)}`, revision: 2, value: undefined };
    await calls.offer(id, { kind: "erase" }, { body: bytes(""), deadlineMs: 1_000 });
    calls.leaseChanged({ ...change, released: true }, "host-a");
    expect(signals[0]!.aborted).toBe(false);
    calls.leaseChanged(change, "host-b");
    expect(signals[0]!.aborted).toBe(true);
  });

  test("an offer of an older release, which names no request that is under way, is passed over", async () => {
    const [older, gateway] = [await open(), await open()];
    const { client } = older.connection;
    let address = "";
    client.subscribe("agents.call.older.x", {
      callback: (_error, message) => {
        address = message.reply!.slice(0, message.reply!.lastIndexOf("."));
        message.respond(message.data);
      },
    });
    await older.connection.client.flush();
    await ask(gateway, "agents.call.older.x", "x");
    gateway.published.length = 0;
    const offer = { kind: Kind.Offer, id: 0, subject: "agents.call.older.x", data: bytes("") };
    const batch = encodeBatch([offer], entryBytesMax(offer.subject, offer.data));
    client.publish(`${address}.-`, batch, { reply: `${older.connection.newAnswerInbox()}.-` });
    await older.connection.client.flush();
    for (const text of ["a", "b"])
      expect(await ask(gateway, "agents.call.older.x", text)).toBe(text);
    expect(gateway.published).toEqual(["agents.call.older.x", "agents.call.older.x"]);
  });

  test("carry only calls: a batch passes by the broker's permissions for the subjects in it", async () => {
    const [gateway, host] = [await open(), await open()];
    const { seen } = await echo(host, "agents.process.>");
    const { client } = gateway.connection;
    const addresses: string[] = [];
    // The host learns the address of a process that calls it, and the other way round.
    const mine = "agents.answer.gateway.thief";
    const kinds: number[] = [];
    client.subscribe(`${mine}.*`, {
      callback: (_error, { data, reply, subject }) => {
        addresses.push(reply!.slice(0, reply!.lastIndexOf(".")));
        if (subject.endsWith(".-"))
          readBatch(new Uint8Array(data), ({ kind }) => void kinds.push(kind));
      },
    });
    await echo(host, "agents.call.1.>");
    await client.flush();
    for (let n = 0; n < 20; n++)
      client.publish("agents.call.1.A.a", bytes("silent"), { reply: `${mine}.${n}` });
    await pollUntil("the offer of batches", () => kinds.includes(Kind.Offer));
    seen.length = 0;
    const request = { kind: Kind.Request, id: 1, subject: "agents.process.p1", data: bytes("x") };
    const batch = encodeBatch([request], entryBytesMax(request.subject, request.data));
    client.publish(`${addresses.at(-1)}.-`, batch, { reply: `${mine}.-` });
    await pollUntil("the refusal", () => kinds.includes(Kind.NoListener));
    expect(seen).toEqual([]);
  });

  test("after the connection was lost they are learned again", async () => {
    const [host, gateway] = [await open(), await open()];
    const { close } = await echo(host, "agents.call.again.>");
    await introduce(gateway, "agents.call.again.x");
    const isBack = new Promise<void>((resolve) =>
      gateway.connection.onChange((up) => up && resolve()),
    );
    await gateway.connection.client.reconnect();
    await isBack;
    gateway.published.length = 0;
    expect(await ask(gateway, "agents.call.again.x", "a")).toBe("agents.call.again.x a");
    expect(gateway.published).toEqual(["agents.call.again.x"]);
    await introduce(gateway, "agents.call.again.x");
    await close();
  });
});

describe("a batch's entries", () => {
  const entry = fc.record({
    kind: fc.integer({ min: 0, max: 255 }),
    id: fc.integer({ min: 0, max: 2 ** 48 - 1 }),
    subject: fc.string({ maxLength: 40, unit: "binary" }),
    data: fc.uint8Array({ maxLength: 300 }),
  });
  const batchOf = (entries: ReadonlyArray<Entry>) =>
    encodeBatch(
      entries,
      entries.reduce((sum, { subject, data }) => sum + entryBytesMax(subject, data), 0),
    );
  const read = (batch: Uint8Array) => {
    const entries: Entry[] = [];
    return {
      whole: readBatch(batch, (one) => entries.push({ ...one, data: Uint8Array.from(one.data) })),
      entries,
    };
  };

  test("are read as written, and from a damaged batch at most what was intact", () => {
    fc.assert(
      fc.property(fc.array(entry, { maxLength: 8 }), fc.nat(), (entries, cut) => {
        const batch = batchOf(entries);
        expect(read(batch)).toEqual({ whole: true, entries });
        const part = read(batch.subarray(0, cut % batch.length));
        expect(part.entries).toEqual(entries.slice(0, part.entries.length));
        expect(part.entries.length).toBeLessThan(entries.length + 1);
      }),
    );
  });

  test("any bytes are read without a throw, another version not at all", () => {
    fc.assert(fc.property(fc.uint8Array({ maxLength: 200 }), (batch) => void read(batch)));
    const batch = batchOf([{ kind: 1, id: 1, subject: "x", data: bytes("x") }]);
    batch[0] = 2;
    expect(read(batch)).toEqual({ whole: false, entries: [] });
  });
});
