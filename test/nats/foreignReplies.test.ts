/** Requests that want answers where nobody receives any are dropped, with few log lines. */
import { afterAll, beforeAll, expect, test } from "vitest";
import type { LogFields } from "../../core/telemetry/Log.ts";
import { repeatedLines } from "../../core/telemetry/RepeatedLines.ts";
import { Subjects } from "../../schemas/Subjects.ts";
import { openConnection } from "../../services/nats/client/NatsConnection.ts";
import { makeNatsBus } from "../../services/nats/NatsBus.ts";
import { openNats } from "../../services/nats/setup/openNats.ts";
import { startNats, type TestNats } from "../kit/natsServer.ts";
import { pollUntil } from "../kit/poll.ts";

const REQUESTS = 50;

let server: TestNats;
const lines: Array<{ readonly message: string; readonly fields: LogFields }> = [];
const keep = (message: string, fields: LogFields = {}): void =>
  void lines.push({ message, fields });
const log = repeatedLines({ debug: keep, info: keep, warn: keep, error: keep }, () => undefined);

beforeAll(async () => {
  server = await startNats();
});
afterAll(() => server?.stop());

test("they are one line of the log and a count", async () => {
  const options = { servers: server.url };
  const connection = await openConnection(options, (level, message, fields) =>
    log[level](message, fields as LogFields),
  );
  const nats = await openNats(connection, new Subjects(), { provision: { shards: 1 } });
  const bus = makeNatsBus(nats);
  let received = 0;
  const end = bus.subscribe("agents.call.0.>", () => void received++);
  const other = await openConnection(options, () => undefined);
  try {
    await connection.client.flush();
    for (let n = 0; n < REQUESTS; n++)
      other.client.publish(`agents.call.0.A.a${n}`, "x", { reply: `agents.journal.A.a${n}` });
    const { newAnswerInbox } = other;
    other.client.publish("agents.call.0.A.last", "x", { reply: `${newAnswerInbox()}.1` });
    await pollUntil("the last one arrives", () => received === 1);
    log.flush();
    expect(lines).toMatchObject([
      { message: "a request was dropped", fields: { reply: "agents.journal.A.a0" } },
      { message: "a request was dropped", fields: { repeated: REQUESTS - 1 } },
    ]);
  } finally {
    await end();
    await other.close();
    await connection.close();
  }
});
