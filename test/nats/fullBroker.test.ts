/** A broker that has no room left: what can't be written says why. */
import { expect, test } from "vitest";
import { Subjects } from "../../schemas/Subjects.ts";
import { agentId, type Sequence } from "../../schemas/Address.ts";
import { makeNatsBlobs } from "../../services/nats/NatsBlobs.ts";
import { makeNatsJournal } from "../../services/nats/NatsJournal.ts";
import { makeNatsLeases } from "../../services/nats/NatsLeases.ts";
import { useNats } from "./useNats.ts";

const used = useNats();
/** nats-server's answer, and its code for it. */
const FULL = { _tag: "Refused", code: 10_023, message: "insufficient resources" } as const;

test("a claim or a renewal that is refused for lack of room fails with the reason", async () => {
  const nats = await used.open(new Subjects(), { shards: 1 });
  let isFull = false;
  const { publisher } = nats;
  const filling: typeof publisher = Object.assign(Object.create(publisher) as typeof publisher, {
    publish: async (...args: Parameters<typeof publisher.publish>) =>
      isFull ? FULL : publisher.publish(...args),
  });
  const leases = makeNatsLeases({ ...nats, publisher: filling });
  const claimed = await leases.claim("shard.0", "h1");
  if (claimed._tag !== "Claimed") throw new Error("it is held");
  isFull = true;
  await expect(leases.renew(claimed.lease)).rejects.toThrow(
    "shard.0 could not be written: insufficient resources",
  );
  await leases.release(claimed.lease);
  // Nobody holds it: that it is held would leave the shard without a word.
  await expect(leases.claim("shard.1", "h1")).rejects.toThrow(
    "shard.1 could not be written: insufficient resources",
  );
});

test("an event that finds no room is logged with the reason, and stored once there is room", async () => {
  const nats = await used.open(new Subjects("events"), { shards: 1 });
  const lines: unknown[] = [];
  const [publisher] = nats.journalPublishers;
  let refusals = 3;
  const filling: typeof publisher = Object.assign(Object.create(publisher!) as object, {
    publishAfter: async (...args: Parameters<NonNullable<typeof publisher>["publishAfter"]>) =>
      refusals-- > 0 ? FULL : publisher!.publishAfter(...args),
  }) as typeof publisher;
  const connection = {
    ...nats.connection,
    log: (_level: string, message: string, fields: object = {}) =>
      void lines.push({ message, ...fields }),
  };
  const full = { ...nats, connection, journalPublishers: [filling!] };
  const journal = makeNatsJournal(full, makeNatsBlobs(nats));
  const { signal } = new AbortController();
  const at = { expectedSeq: 0 as Sequence, signal };
  const stored = await journal.append(agentId("C", "x"), new Uint8Array(1), at);
  expect(stored._tag).toBe("Stored");
  const message = "an event could not be stored; its turn waits";
  const line = { message, stream: nats.subjects.stream.journal, why: FULL.message };
  expect(lines).toEqual([line, line]);
});
