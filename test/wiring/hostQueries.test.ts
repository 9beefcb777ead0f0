/** The thread that answers questions over all agents, at bad moments. It runs built code. */
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { AgentImage } from "../../core/journal/AgentImage.ts";
import { encodeCommit } from "../../core/journal/encodeCommit.ts";
import type { TimeShape } from "../../core/time/Time.ts";
import { agentId, type Epoch, type Sequence } from "../../schemas/Address.ts";
import { Subjects } from "../../schemas/Subjects.ts";
import type { NatsShape } from "../../services/nats/client/Nats.ts";
import { openConnection } from "../../services/nats/client/NatsConnection.ts";
import { makeNatsBlobs } from "../../services/nats/NatsBlobs.ts";
import { makeNatsJournal } from "../../services/nats/NatsJournal.ts";
import { openNats } from "../../services/nats/setup/openNats.ts";
import { pickPort } from "../../services/natsServer/pickPort.ts";
import { machineTime } from "../../services/node/MachineTime.ts";
import { HostQueries } from "../../services/wiring/HostQueries.ts";
import { startNats } from "../kit/natsServer.ts";
import { tempFolder, type TempFolder } from "../kit/tempFolder.ts";

const SHARDS = 4;
/** The pause after which a thread without questions is closed is as long. */
const IDLE_MS = 60_000;
const SECRET = "what the erased agent has stored";
const ID = agentId("A", "a");

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

function open(port: number, time: Pick<TimeShape, "after"> = machineTime) {
  const target = { natsUrl: `nats://127.0.0.1:${port}`, login: {}, namespace: "agents" };
  const queries = new HostQueries({ target, folder: join(folder.path, "view") }, time);
  ends.push(() => queries.stop());
  return queries;
}

test("a question after one that found no broker is answered once the broker is back", async () => {
  const port = await pickPort();
  const queries = open(port);
  const question = { sql: "SELECT 1 AS x", values: [], seconds: 5 };
  await Promise.all([
    expect(queries.answer(question)).rejects.toMatchObject({ _tag: "BrokerUnavailable" }),
    expect(queries.answer(question)).rejects.toMatchObject({ _tag: "BrokerUnavailable" }),
  ]);
  await startBroker(port);
  expect(Buffer.from(await queries.answer(question)).toString()).toContain("x");
});

/** Stores one event, which sets a state with the secret. */
async function storeEvent(nats: NatsShape): Promise<void> {
  const turn = { cause: { kind: "rpc" as const }, durable: false, ended: true };
  const state = { text: JSON.stringify({ SECRET }) };
  const { data } = encodeCommit({
    image: new AgentImage(ID),
    host: "h",
    epoch: 1 as Epoch,
    timeMs: 1,
    eventId: "e",
    turns: [{ turn, state, sql: [], outcome: undefined, told: false }],
  } as object as Parameters<typeof encodeCommit>[0]);
  await makeNatsJournal(nats, makeNatsBlobs(nats)).append(ID, data, {
    expectedSeq: 0 as Sequence,
    signal: new AbortController().signal,
  });
}

/** The bytes of all files in the folder, as text. */
function textsIn(path: string): string {
  if (!existsSync(path)) return "";
  const names = readdirSync(path, { recursive: true, withFileTypes: true });
  return names
    .filter((file) => file.isFile())
    .map((file) => readFileSync(join(file.parentPath, file.name), "latin1"))
    .join();
}

test("an erasure while the idle thread closes leaves nothing of the agent in the view", async () => {
  const port = await pickPort();
  await storeEvent(await startBroker(port));
  let idle = (): void => undefined;
  const queries = open(port, {
    after: (ms, f) => {
      if (ms !== IDLE_MS) return machineTime.after(ms, f);
      idle = f;
      return () => undefined;
    },
  });
  const question = { sql: "SELECT state FROM A", values: [], seconds: 5 };
  expect(Buffer.from(await queries.answer(question)).toString()).toContain(SECRET);
  idle();
  await queries.erased();
  expect(textsIn(folder.path)).not.toContain(SECRET);
  // Longer than a thread that closes has.
  await new Promise((resolve) => setTimeout(resolve, 2_500));
  expect(textsIn(folder.path)).not.toContain(SECRET);
});
