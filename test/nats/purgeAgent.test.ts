/** Erasing an agent while the broker stores nothing: others lose nothing; a new run ends it. */
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
