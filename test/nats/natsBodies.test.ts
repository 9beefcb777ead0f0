/** Bodies that gateways write: once, so that no other writer can replace or remove them. */
import { beforeAll, describe, expect, it } from "vitest";
import { BrokerUnavailable } from "../../core/bus/Bus.ts";
import { agentId, shardOf } from "../../schemas/Address.ts";
import { decodeFrame } from "../../schemas/Frame.ts";
import { Subjects } from "../../schemas/Subjects.ts";
import type { PublishOutcome } from "../../services/nats/client/AckPublisher.ts";
import { bodyStore, objectStore } from "../../services/nats/layout/blobStores.ts";
import type { NatsShape } from "../../services/nats/client/Nats.ts";
import { openNats } from "../../services/nats/setup/openNats.ts";
import { makeNatsBlobs } from "../../services/nats/NatsBlobs.ts";
import { makeNatsInbox } from "../../services/nats/NatsInbox.ts";
import { makeNatsLeases } from "../../services/nats/NatsLeases.ts";
import { collect } from "../kit/collect.ts";
import { pollUntil } from "../kit/poll.ts";
import { LARGE_BYTES, message, patient, PAYLOAD_BYTES_MAX } from "../conformance/Backend.ts";
import { useNats } from "./useNats.ts";

const SHARDS = 4;
/** A few chunks. */
const BYTES = 400_000;

describe("bodies", () => {
  const used = useNats({ maxPayload: PAYLOAD_BYTES_MAX });
  let nats: NatsShape;
  beforeAll(async () => {
    nats = await used.open(new Subjects(), { shards: SHARDS });
  });
  const stored = () =>
    collect(nats.reader.messages(nats.subjects.stream.bodies, ">", { fromSeq: 1 }));
  const namesOf = async () =>
    (await stored())
      .filter(({ subject }) => subject.includes(".entry."))
      .map(({ data }) =>
        String((JSON.parse(Buffer.from(data).toString()) as { name: string }).name),
      );

  it("can't be replaced, and chunks added by others are ignored", async () => {
    const blobs = makeNatsBlobs(nats);
    const data = message("mine", BYTES);
    await blobs.put("inbox/A/x/1", data);
    const store = bodyStore(nats.subjects);
    const entry = await nats.publisher.publish(store.entryOf("inbox/A/x/1"), message("other"));
    expect(entry).toMatchObject({ _tag: "Refused" });
    const id = store.newId("inbox/A/x/1");
    expect(await nats.publisher.publish(store.chunkOf(id, 0), message("other"))).toMatchObject({
      _tag: "Refused",
    });
    for (const index of ["99", "x", "0.5", "-1", "00", "0x0", "1e0"])
      await nats.publisher.publish(`${store.chunkOf(id, 0).slice(0, -1)}${index}`, message("more"));
    expect(Buffer.compare((await blobs.get("inbox/A/x/1"))!, data)).toBe(0);
  });

  it("are completed by repeating a write that was cut short, in any order", async () => {
    const data = message("again", BYTES);
    let left = 2;
    const dropping: NatsShape = {
      ...nats,
      publisher: Object.assign(Object.create(nats.publisher) as NatsShape["publisher"], {
        publish: (...args: Parameters<NatsShape["publisher"]["publish"]>) =>
          left-- === 2
            ? Promise.resolve<PublishOutcome>({ _tag: "Ambiguous", message: "lost" })
            : nats.publisher.publish(...args),
      }),
    };
    await expect(makeNatsBlobs(dropping).put("inbox/A/x/2", data)).rejects.toMatchObject({
      _tag: "BrokerUnavailable",
    });
    const blobs = makeNatsBlobs(nats);
    await blobs.put("inbox/A/x/2", data);
    await blobs.put("inbox/A/x/2", data);
    expect(Buffer.compare((await blobs.get("inbox/A/x/2"))!, data)).toBe(0);
  });

  it("of calls and answers expire by themselves; those of inputs stay until they are removed", async () => {
    const blobs = makeNatsBlobs(nats);
    for (const name of ["calls/1", "answers/1", "inbox/A/x/3"])
      await blobs.put(name, message(name));
    const ttl = new Map((await stored()).map((one) => [one.subject, one.header("Nats-TTL")]));
    const store = bodyStore(nats.subjects);
    expect(ttl.get(store.entryOf("calls/1"))).toBe("300s");
    expect(ttl.get(store.chunkOf(store.newId("answers/1"), 0))).toBe("300s");
    expect(ttl.get(store.entryOf("inbox/A/x/3"))).toBeUndefined();
    // A gateway may not remove them, and does not try.
    await blobs.remove("calls/1");
    expect(await blobs.get("calls/1")).toBeDefined();
    await blobs.remove("inbox/A/x/3");
    expect(await blobs.get("inbox/A/x/3")).toBeUndefined();
  });

  it("of an input are removed once its host has processed it, and not before", async () => {
    const inbox = makeNatsInbox(nats, makeNatsBlobs(nats));
    const id = agentId("B", "big");
    const done = message("done", LARGE_BYTES);
    await inbox.publish(id, done, { signal: patient() });
    await inbox.publish(id, message("waits", LARGE_BYTES), { signal: patient() });
    const consumer = await inbox.consume(shardOf(id, SHARDS), ({ data, ack }) => {
      if (decodeFrame(data).head["id"] === "done") ack();
    });
    await pollUntil("one body is left", async () => {
      const mine = (await namesOf()).filter((name) => name.startsWith("inbox/B/big/"));
      return mine.length === 1 || { done: false, saw: mine };
    });
    await consumer.stop();
    const again: string[] = [];
    const next = await inbox.consume(shardOf(id, SHARDS), ({ data, ack }) => {
      again.push(String(decodeFrame(data).head["id"]));
      ack();
    });
    await pollUntil("the other comes whole", () => again.length > 0);
    expect(again).toEqual(["waits"]);
    await next.stop();
  });

  it("of an input are removed although the broker did not answer at first", async () => {
    const blobs = makeNatsBlobs(nats);
    let asked = 0;
    const remove = async (name: string): Promise<void> => {
      if (asked++ === 0) throw new BrokerUnavailable({ message: "no answer" });
      await blobs.remove(name);
    };
    const inbox = makeNatsInbox(nats, { ...blobs, remove });
    const id = agentId("C", "big");
    await inbox.publish(id, message("done", LARGE_BYTES), { signal: patient() });
    const isThere = async () => (await namesOf()).some((name) => name.startsWith("inbox/C/big/"));
    expect(await isThere()).toBe(true);
    const consumer = await inbox.consume(shardOf(id, SHARDS), ({ ack }) => ack());
    await pollUntil("no body is left", async () => !(await isThere()));
    expect(asked).toBe(2);
    await consumer.stop();
  });

  it("of many chunks can be read by a gateway, which has no direct gets, as can the list of leases", async () => {
    const edge = await openNats(nats.connection, new Subjects(), { leaderOnly: true });
    const asked: string[] = [];
    const request = edge.api.request.bind(edge.api);
    edge.api.request = (subject, data) => {
      asked.push(subject);
      return request(subject, data);
    };
    const data = message("answer", BYTES);
    await makeNatsBlobs(nats).put("answers/many", data);
    expect(Buffer.compare((await makeNatsBlobs(edge).get("answers/many"))!, data)).toBe(0);
    for (const shard of [1, 2]) await makeNatsLeases(nats).claim(`shard.${shard}`, "h1");
    expect(await makeNatsLeases(edge).list("shard.")).toHaveLength(2);
    expect(asked.filter((subject) => subject.includes(".DIRECT."))).toEqual([]);
    expect(asked.length).toBeGreaterThan(2);
  });

  it("of an older release's inputs, in the object store, are delivered", async () => {
    const blobs = makeNatsBlobs(nats);
    const data = message("older", BYTES);
    const sub = nats.subjects.bucket.blobs;
    await blobs.put("journal/A/x/old", data);
    const entry = await nats.reader.byLeader(`OBJ_${sub}`, { last_by_subj: `$O.${sub}.M.>` });
    const older = objectStore(nats.subjects).entryOf("inbox/A/x/old");
    await nats.publisher.publish(older, entry!.data);
    expect(Buffer.compare((await blobs.get("inbox/A/x/old"))!, data)).toBe(0);
  });
});
