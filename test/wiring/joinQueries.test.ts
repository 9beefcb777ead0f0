/**
 * The thread that answers a host's questions over all agents, where it begins or ends at a bad
 * moment. The thread runs built code.
 */
import { afterEach, beforeEach, expect, test } from "vitest";
import { Subjects } from "../../schemas/Subjects.ts";
import { openConnection } from "../../services/nats/client/NatsConnection.ts";
import { openNats } from "../../services/nats/setup/openNats.ts";
import { pickPort } from "../../services/natsServer/pickPort.ts";
import { machineTime } from "../../services/node/MachineTime.ts";
import { joinQueries } from "../../services/wiring/joinQueries.ts";
import { startNats } from "../kit/natsServer.ts";
import { tempFolder, type TempFolder } from "../kit/tempFolder.ts";

const SHARDS = 4;

let folder: TempFolder;
const ends: Array<() => Promise<unknown>> = [];
beforeEach(() => {
  folder = tempFolder("view");
});
afterEach(async () => {
  for (const end of ends.splice(0).toReversed()) await end();
  folder.remove();
});

async function startBroker(port: number) {
  const server = await startNats({ port });
  ends.push(() => server.stop());
  const connection = await openConnection({ servers: server.url }, () => undefined);
  ends.push(() => connection.close());
  return openNats(connection, new Subjects(), { provision: { shards: SHARDS } });
}

function join(port: number, time: Parameters<typeof joinQueries>[1] = machineTime) {
  const target = { natsUrl: `nats://127.0.0.1:${port}`, login: {}, namespace: "agents" };
  const queries = joinQueries({ target, folder: folder.path }, time);
  ends.push(() => queries.stop());
  return queries;
}

test("a question after one that found no broker is answered once the broker is back", async () => {
  const port = await pickPort();
  const queries = join(port);
  const question = { sql: "SELECT 1 AS x", values: [], seconds: 5 };
  await Promise.all([
    expect(queries.answer(question)).rejects.toMatchObject({ _tag: "BrokerUnavailable" }),
    expect(queries.answer(question)).rejects.toMatchObject({ _tag: "BrokerUnavailable" }),
  ]);
  await startBroker(port);
  expect(Buffer.from(await queries.answer(question)).toString()).toContain("x");
});
