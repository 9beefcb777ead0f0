/** An operator lowers the server's `max_payload` while processes run: larger writes still end. */
import { afterAll, beforeAll, expect, test } from "vitest";
import { agentId, type Sequence } from "../../schemas/Address.ts";
import { Subjects } from "../../schemas/Subjects.ts";
import type { NatsShape } from "../../services/nats/client/Nats.ts";
import { openConnection } from "../../services/nats/client/NatsConnection.ts";
import { makeNatsBlobs } from "../../services/nats/NatsBlobs.ts";
import { makeNatsBus } from "../../services/nats/NatsBus.ts";
import { makeNatsInbox } from "../../services/nats/NatsInbox.ts";
import { makeNatsJournal } from "../../services/nats/NatsJournal.ts";
import { openNats } from "../../services/nats/setup/openNats.ts";
import { message, patient } from "../conformance/Backend.ts";
import { collect } from "../kit/collect.ts";
import { startNats, type TestNats } from "../kit/natsServer.ts";
import { pollUntil } from "../kit/poll.ts";
import { tempFolder } from "../kit/tempFolder.ts";

const BEFORE_BYTES = 512 * 1024;
const AFTER_BYTES = 64 * 1024;
/** Between the two. */
const LARGE_BYTES = 200 * 1024;
const NONE = 0 as Sequence;

const folder = tempFolder("lowered-payload");
let server: TestNats;
let nats: NatsShape;

beforeAll(async () => {
  const storeDir = folder.path;
  const before = await startNats({ storeDir, maxPayload: BEFORE_BYTES });
  const { port } = before;
  const connection = await openConnection({ servers: before.url }, () => undefined);
  nats = await openNats(connection, new Subjects(), { provision: { shards: 4 } });
  await before.stop();
  server = await startNats({ storeDir, port, maxPayload: AFTER_BYTES });
  await pollUntil("the client is back", () => connection.connected());
});
afterAll(async () => {
  await nats?.connection.close();
  await server?.stop();
  folder.remove();
});

test("a large event is stored, alone and among many, and read back", async () => {
  const journal = makeNatsJournal(nats, makeNatsBlobs(nats));
  for (const on of [false, true]) {
    nats.groupCommit.on = on;
    const ids = Array.from({ length: 12 }, (_, n) => agentId("A", `${String(on)} ${n}`));
    const data = message("event", LARGE_BYTES);
    const results = await Promise.all(
      ids.map((id) => journal.append(id, data, { expectedSeq: NONE, signal: patient() })),
    );
    expect(results.map(({ _tag }) => _tag)).toEqual(ids.map(() => "Stored"));
    for (const id of ids) {
      const [event] = await collect(journal.read(id, { fromSeq: 1 as Sequence }));
      expect(Buffer.compare(event!.data, data)).toBe(0);
    }
  }
});

test("a write that has chosen its way before the limit changed finds the other one", async () => {
  const limit = Object.create(nats, {
    messageBytesMax: { value: BEFORE_BYTES },
  }) as NatsShape;
  const id = agentId("A", "chosen before");
  const data = message("event", LARGE_BYTES);
  const blobs = makeNatsBlobs(nats);
  const journal = makeNatsJournal(limit, blobs);
  for (const on of [false, true]) {
    nats.groupCommit.on = on;
    const last = (await journal.last(id))?.seq ?? NONE;
    const stored = await journal.append(id, data, { expectedSeq: last, signal: patient() });
    expect(stored._tag).toBe("Stored");
    const input = await makeNatsInbox(limit, blobs).publish(id, data, { signal: patient() });
    expect(input._tag).toBe("Stored");
  }
  expect(await collect(journal.read(id, { fromSeq: 1 as Sequence }))).toHaveLength(2);
});

test("the bus announces the limit of the connected server", () => {
  expect(makeNatsBus(nats).payloadBytesMax).toBe(AFTER_BYTES);
});
