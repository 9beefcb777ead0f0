/** What a process says of the broker that it uses: nothing of the login. */
import { expect, test } from "vitest";
import { openBroker } from "../../services/wiring/joinBroker.ts";
import type { BrokerSettings } from "../../services/wiring/ProcessSettings.ts";

test.each([
  ["nats://127.0.0.1:4222", "nats://127.0.0.1:4222"],
  ["tls://user:secret@host:4222", "tls://host:4222"],
  ["user:secret@host:4222", "nats://host:4222"],
  ["token@host", "nats://host"],
  ["nats://user:p@secret@host", "nats://host"],
  ["nats://user:secret@a:1, user:secret@b:2,c", "nats://a:1,nats://b:2,nats://c"],
  ["nats://user:secret@[::1]:4222", "nats://[::1]:4222"],
  ["nats://user:secret/x@host", "an invalid URL"],
])("of %s", async (natsUrl, summary) => {
  const opened = await openBroker({ natsUrl } as BrokerSettings);
  expect(opened).toMatchObject({ url: natsUrl, summary });
});
