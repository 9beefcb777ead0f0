/** Due timers on their way to the inbox: shared by all hosts, stored before they are acked. */
import { describe, expect, it } from "vitest";
import { agentId, shardOf, type AgentId, type ShardId } from "../../schemas/Address.ts";
import { decodeFrame } from "../../schemas/Frame.ts";
import { Subjects } from "../../schemas/Subjects.ts";
import type { StreamPublisher } from "../../services/nats/client/GroupPublisher.ts";
import type { NatsShape } from "../../services/nats/client/Nats.ts";
import { makeNatsBlobs } from "../../services/nats/NatsBlobs.ts";
import { makeNatsInbox } from "../../services/nats/NatsInbox.ts";
import { makeNatsTimers } from "../../services/nats/NatsTimers.ts";
import { pollUntil } from "../kit/poll.ts";
import { message } from "../conformance/Backend.ts";
import { useNats } from "./useNats.ts";

const SHARDS = 2;
const CONSUMER = "due-relay";
const TIMERS = 300;
/** Until what another process pulled and did not store is delivered again, and some. */
const TAKEN_OVER_MS = 12_000;

describe("due timers", () => {
  const used = useNats();
  const open = (namespace: string): Promise<NatsShape> =>
    used.open(new Subjects(namespace), { shards: SHARDS });
  /** Consumes one shard; what came, by label. */
  async function consume(nats: NatsShape, shard: number) {
    const got: string[] = [];
    const inbox = makeNatsInbox(nats, makeNatsBlobs(nats));
    const consumer = await inbox.consume(shard as ShardId, ({ data, ack }) => {
      got.push(String(decodeFrame(data).head["id"]));
      ack();
    });
    return { got, stop: consumer.stop };
  }
  const ofShard = (shard: number): AgentId => {
    for (let n = 0; ; n++)
      if (shardOf(agentId("A", `a${n}`), SHARDS) === shard) return agentId("A", `a${n}`);
  };
  const stored = async (nats: NatsShape): Promise<number> => {
    type Info = { state: { messages: number } };
    return (await nats.api.call<Info>(`STREAM.INFO.${nats.subjects.stream.timers}`)).state.messages;
  };

  it("arrive once each, at the owner of their shard, whichever host relayed them", async () => {
    const [one, two] = [await open("shared"), await open("shared")];
    const consumers = [await consume(one, 0), await consume(two, 1)];
    const timers = makeNatsTimers(one);
    const due = Date.now() + 500;
    await Promise.all(
      Array.from({ length: TIMERS }, (_, n) =>
        timers.arm(ofShard(n % 2), `t${n}`, due, message(`t${n}`)),
      ),
    );
    await pollUntil(
      "all have come",
      () => consumers[0]!.got.length + consumers[1]!.got.length >= TIMERS,
    );
    await pollUntil("nothing is left", async () => (await stored(one)) === 0);
    for (const [shard, { got }] of consumers.entries()) {
      expect(new Set(got).size).toBe(got.length);
      for (const label of got) expect(Number(label.slice(1)) % 2).toBe(shard);
    }
    expect(consumers[0]!.got.length + consumers[1]!.got.length).toBe(TIMERS);
    for (const consumer of consumers) await consumer.stop();
  });

  it("that can't be stored stay, and arrive when they can", async () => {
    const opened = await open("refused");
    let refusals = 3;
    const publisher = opened.inboxPublishers[0]!;
    const refusing: StreamPublisher = {
      publishAfter: (...args) => publisher.publishAfter(...args),
      publish: (...args) =>
        refusals-- > 0
          ? Promise.resolve({ _tag: "Ambiguous", message: "no ack" })
          : publisher.publish(...args),
    };
    const nats: NatsShape = { ...opened, inboxPublishers: [refusing] };
    const consumer = await consume(nats, 0);
    await makeNatsTimers(nats).arm(ofShard(0), "t", Date.now(), message("t"));
    await pollUntil("it has come", () => consumer.got.length > 0);
    expect(refusals).toBeLessThan(0);
    await pollUntil("nothing is left", async () => (await stored(nats)) === 0);
    expect(consumer.got).toEqual(["t"]);
    await consumer.stop();
  });

  it("continue after the broker has lost the consumer", async () => {
    const nats = await open("forgotten");
    const consumer = await consume(nats, 0);
    const timers = makeNatsTimers(nats);
    await timers.arm(ofShard(0), "before", Date.now(), message("before"));
    await pollUntil("the first has come", () => consumer.got.length === 1);
    await nats.api.call(`CONSUMER.DELETE.${nats.subjects.stream.timers}.${CONSUMER}`);
    await timers.arm(ofShard(0), "after", Date.now(), message("after"));
    await pollUntil("the second has come", () => consumer.got.length === 2);
    await consumer.stop();
  });

  it("that a host pulled and never stored go to another host", async () => {
    const nats = await open("frozen");
    const first = await consume(nats, 0);
    await makeNatsTimers(nats).arm(ofShard(0), "x", Date.now(), message("x"));
    await pollUntil("the consumer is there", () => first.got.length === 1);
    await first.stop();
    // A frozen host: it listens, and does nothing.
    const pulled: string[] = [];
    const { connection, subjects } = nats;
    const inbox = connection.newInbox();
    connection.client.subscribe(inbox, {
      callback: (_error, { subject }) => void pulled.push(subject),
    });
    connection.client.publish(
      `$JS.API.CONSUMER.MSG.NEXT.${subjects.stream.timers}.${CONSUMER}`,
      JSON.stringify({ batch: 10, expires: 5_000_000_000 }),
      { reply: inbox },
    );
    await makeNatsTimers(nats).arm(ofShard(0), "y", Date.now(), message("y"));
    await pollUntil("it was pulled", () => pulled.includes(subjects.due(0 as ShardId, ofShard(0))));
    const second = await consume(await open("frozen"), 0);
    await pollUntil("the other has it", () => second.got.includes("y"), {
      timeoutMs: TAKEN_OVER_MS,
    });
    await second.stop();
  });
});
