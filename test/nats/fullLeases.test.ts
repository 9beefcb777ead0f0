/** Leases at a broker that has no room left: what can't be written says why. */
import { expect, test } from "vitest";
import { Subjects } from "../../schemas/Subjects.ts";
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
