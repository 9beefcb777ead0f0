/** Erasing an agent beside others, also while the broker stores nothing for a moment. */
import { expect, test } from "vitest";
import { agentId, type Sequence } from "../../schemas/Address.ts";
import type { DeliveryRecord } from "../../schemas/DeliveryRecord.ts";
import { decodeRecords, encodeRecords } from "../../schemas/RecordBatch.ts";
import { Subjects } from "../../schemas/Subjects.ts";
import type { PublishOutcome } from "../../services/nats/client/AckPublisher.ts";
import type { NatsShape } from "../../services/nats/client/Nats.ts";
import { purgeAgent } from "../../services/nats/purgeAgent.ts";
import { collect } from "../kit/collect.ts";
import { useNats } from "./useNats.ts";

const used = useNats();
const ID = agentId("A", "a");
const KEEP = { keepEventsFrom: 1 as Sequence };

const recordOf = (name: string): DeliveryRecord => ({
  id: `mabcdefg-${name}`,
  at: 1,
  status: "answered",
  agent: ["A", name],
});

test.each<[string, PublishOutcome]>([
  ["are not sent", { _tag: "NotSent", message: "no leader" }],
  ["are refused", { _tag: "Refused", code: 10_077, message: "full" }],
  ["are not acked", { _tag: "Ambiguous", message: "no ack" }],
])("delivery records of others that %s stay where they are", async (name, outcome) => {
  const nats = await used.open(new Subjects(name.replaceAll(" ", "-")), { shards: 1 });
  const { publisher, reader } = nats;
  const subject = nats.subjects.delivery("taken");
  const others = async () =>
    (await collect(reader.messages(nats.subjects.stream.deliveries, subject, { fromSeq: 1 })))
      .flatMap(({ data }) => decodeRecords(data).records)
      .map(({ agent }) => agent![1]);
  const batch = encodeRecords({ by: "g", records: [recordOf("a"), recordOf("b")] });
  await publisher.publish(subject, batch);
  const failing: NatsShape = {
    ...nats,
    publisher: Object.assign(Object.create(publisher) as typeof publisher, {
      publish: () => Promise.resolve(outcome),
    }),
  };
  await expect(purgeAgent(failing, ID, KEEP)).rejects.toMatchObject({ _tag: "BrokerUnavailable" });
  expect(await others()).toEqual(["a", "b"]);
  await purgeAgent(nats, ID, KEEP);
  expect(await others()).toEqual(["b"]);
});

test("the broker has as much time for others as for the deletions, which come one by one", async () => {
  const nats = await used.open(new Subjects("paced"), { shards: 1 });
  const { publisher, api, reader, subjects } = nats;
  const [subject, stream] = [subjects.journal(ID), subjects.stream.journal];
  for (let n = 0; n < 20; n++) await publisher.publish(subject, new Uint8Array(1));
  let [now, busyMs, startMs] = [0, 0, Infinity];
  const slow: NatsShape = {
    ...nats,
    api: Object.assign(Object.create(api) as typeof api, {
      call: async (name: string, body?: object) => {
        if (!name.includes("MSG.DELETE")) return api.call(name, body);
        const beganMs = performance.now();
        startMs = Math.min(startMs, beganMs);
        expect(++now).toBe(1);
        await Promise.all([api.call(name, body), new Promise((end) => setTimeout(end, 10))]);
        now--;
        busyMs += performance.now() - beganMs;
      },
    }),
  };
  const { events } = await purgeAgent(slow, ID, { keepEventsFrom: 100 as Sequence });
  expect(events).toBe(20);
  expect(await collect(reader.messages(stream, subject, { fromSeq: 1 }))).toEqual([]);
  expect(performance.now() - startMs).toBeGreaterThan(busyMs * 1.8);
});
