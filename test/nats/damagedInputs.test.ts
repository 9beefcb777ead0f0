/** Damaged and foreign inputs in an inbox cost no other input its delivery. */
import { describe, expect, it } from "vitest";
import { agentId, type Sequence, type ShardId } from "../../schemas/Address.ts";
import { decodeFrame, encodeFrame } from "../../schemas/Frame.ts";
import { Subjects } from "../../schemas/Subjects.ts";
import { makeNatsBlobs } from "../../services/nats/NatsBlobs.ts";
import { makeNatsDeadLetters } from "../../services/nats/NatsDeadLetters.ts";
import { makeNatsInbox } from "../../services/nats/NatsInbox.ts";
import { message } from "../conformance/Backend.ts";
import { collect } from "../kit/collect.ts";
import { pollUntil } from "../kit/poll.ts";
import { useNats } from "./useNats.ts";

const SHARD = 0 as ShardId;
/** A place behind the checksum of a frame. */
const IN_HEAD = 40;

function damaged(frame: Uint8Array): Uint8Array {
  const copy = Uint8Array.from(frame);
  copy[IN_HEAD]! ^= 1;
  return copy;
}

const CHECK = { blob: "inbox/A/a/1", bytes: 3 };

describe("where", () => {
  const used = useNats();

  it.each<[string, Uint8Array]>([
    ["a damaged claim check", damaged(encodeFrame({ claim: CHECK }))],
    ["a claim check of nothing", encodeFrame({ claim: null })],
    ["a claim check without a name", encodeFrame({ claim: { bytes: 3 } })],
    ["a claim check with a number for a name", encodeFrame({ claim: { ...CHECK, blob: 5 } })],
    ["a claim check without a size", encodeFrame({ claim: { blob: CHECK.blob } })],
    ["a claim check whose blob is gone", encodeFrame({ claim: CHECK })],
  ])(
    "%s is in place of an input, it is delivered as it is, and so are those behind it",
    async (name, data) => {
      const nats = await used.open(new Subjects(name.replaceAll(" ", "-")), { shards: 1 });
      const got: Array<string | Uint8Array> = [];
      const inbox = makeNatsInbox(nats, makeNatsBlobs(nats));
      const consumer = await inbox.consume(SHARD, ({ data: bytes, ack }) => {
        got.push(got.length === 0 ? bytes : String(decodeFrame(bytes).head["id"]));
        ack();
      });
      const subject = nats.subjects.inbox(SHARD, agentId("A", "a"));
      await nats.publisher.publish(subject, data);
      await nats.publisher.publish(subject, message("behind"));
      await pollUntil("both have come", () => got.length === 2 || { done: false, saw: got });
      expect(got).toEqual([data, "behind"]);
      await consumer.stop();
    },
  );

  it("a dead letter's claim check is damaged: the letter is listed, and removed", async () => {
    const nats = await used.open(new Subjects("dead"), { shards: 1 });
    const letters = makeNatsDeadLetters(nats, makeNatsBlobs(nats));
    const data = damaged(encodeFrame({ claim: { blob: "dead/A/a/1", bytes: 3 } }));
    await nats.publisher.publish(nats.subjects.dead(agentId("A", "a")), data);
    expect(await collect(letters.list())).toMatchObject([{ seq: 1, data }]);
    expect(await letters.remove(1 as Sequence)).toBe(true);
    expect(await letters.count()).toBe(0);
  });
});
