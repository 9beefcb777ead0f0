/** A consumer that heals during an election: its creation's answer is lost. It is not another's. */
import { afterAll, beforeAll, expect, test } from "vitest";
import { BrokerUnavailable } from "../../core/bus/Bus.ts";
import { agentId, shardOf } from "../../schemas/Address.ts";
import { encodeEnvelope } from "../../schemas/InboxEnvelope.ts";
import { Subjects } from "../../schemas/Subjects.ts";
import type { JetStreamApi } from "../../services/nats/client/JetStreamApi.ts";
import type { NatsShape } from "../../services/nats/client/Nats.ts";
import { openNats } from "../../services/nats/setup/openNats.ts";
import { makeNatsBlobs } from "../../services/nats/NatsBlobs.ts";
import { openConnection } from "../../services/nats/client/NatsConnection.ts";
import { makeNatsInbox } from "../../services/nats/NatsInbox.ts";
import { startNats, type TestNats } from "../kit/natsServer.ts";
import { pollUntil } from "../kit/poll.ts";

const SHARDS = 1;
let server: TestNats;
let nats: NatsShape;

beforeAll(async () => {
  server = await startNats();
  const connection = await openConnection({ servers: server.url }, () => undefined);
  nats = await openNats(connection, new Subjects("lost"), { provision: { shards: SHARDS } });
});
afterAll(async () => {
  await nats?.connection.close();
  await server?.stop();
});

test("a consumer whose creation was not acknowledged resumes delivery by itself", async () => {
  let lost = 0;
  let losing = false;
  const call = async (verb: string, body?: object): Promise<unknown> => {
    const answer = await nats.api.call(verb, body);
    if (losing && verb.startsWith("CONSUMER.CREATE.")) {
      losing = false;
      lost++;
      throw new BrokerUnavailable({ message: "no answer" });
    }
    return answer;
  };
  const api = { call, request: nats.api.request.bind(nats.api) } as unknown as JetStreamApi;
  const inbox = makeNatsInbox({ ...nats, api }, makeNatsBlobs(nats));
  const id = agentId("A", "one");
  const seen: number[] = [];
  const consumer = await inbox.consume(shardOf(id, SHARDS), (delivery) => {
    seen.push(delivery.seq);
    delivery.ack();
  });
  const send = (): Promise<unknown> =>
    inbox.publish(id, encodeEnvelope({ kind: "webhook" } as never, new Uint8Array(0)), {
      signal: AbortSignal.timeout(5_000),
    });
  await send();
  await pollUntil("the first input", () => seen.length === 1);

  losing = true;
  const { stream } = nats.subjects;
  const { consumers } = await nats.api.call<{ consumers: ReadonlyArray<string> }>(
    `CONSUMER.NAMES.${stream.inbox}`,
  );
  await nats.api.call(`CONSUMER.DELETE.${stream.inbox}.${consumers[0]}`);
  await pollUntil("the lost creation", () => lost === 1);
  await send();
  await pollUntil("the second input", () => seen.length === 2 || { done: false, saw: seen });
  expect(seen[1]).toBeGreaterThan(seen[0]!);
  await consumer.stop();
});
