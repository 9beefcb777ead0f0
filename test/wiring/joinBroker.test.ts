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
])("of %s", async (natsUrl, summary) => {
  const opened = await openBroker({ natsUrl } as BrokerSettings);
  expect(opened).toMatchObject({ url: natsUrl, summary });
});

test.each([
  ["nats://user:secret/x@host", /is invalid: write nats/],
  ["nats://user:secret%zz@host", /is invalid: write nats.* %25/],
  ["nats://user:pa,ss@127.0.0.1:4222", /write a comma .* as %2C/],
  ["nats://user:1,secret@127.0.0.1:4222", /write a comma .* as %2C/],
])("of %s, which can't be read, says what to write and shows no part of it", async (natsUrl, text) => {
  const error = await openBroker({ natsUrl } as BrokerSettings).catch((e: Error) => e);
  expect(String(error)).toMatch(text);
  expect(String(error)).not.toMatch(/secret|user:1|:pa$|ss@|127/);
}); // prettier-ignore
