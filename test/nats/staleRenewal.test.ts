/** A renewal that learns of its lease's end late, after the key was released and claimed again. */
import { expect, test } from "vitest";
import { Subjects } from "../../schemas/Subjects.ts";
import type { NatsShape } from "../../services/nats/client/Nats.ts";
import { makeNatsLeases } from "../../services/nats/NatsLeases.ts";
import { useNats } from "./useNats.ts";

const used = useNats();

test("a renewal whose ack is lost does not lose the later claim of its key", async () => {
  const nats = await used.open(new Subjects(), { shards: 1 });
  const { publisher } = nats;
  /** Set while the next message is kept back until it fires. */
  let held: Promise<void> | undefined;
  const losing: NatsShape["publisher"] = Object.assign(
    Object.create(publisher) as NatsShape["publisher"],
    {
      publish: async (...args: Parameters<typeof publisher.publish>) => {
        const mine = held;
        held = undefined;
        if (mine === undefined) return publisher.publish(...args);
        await mine;
        return { _tag: "Ambiguous", message: "no ack" };
      },
    },
  );
  const leases = makeNatsLeases({ ...nats, publisher: losing });
  const claim = async (value: string) => {
    const result = await leases.claim("shard.0", value);
    if (result._tag !== "Claimed") throw new Error("it is held");
    return result.lease;
  };
  const first = await claim("h1");
  let acksAreLost = (): void => undefined;
  held = new Promise((resolve) => (acksAreLost = resolve));
  const late = leases.renew(first);
  await leases.release(first);
  const second = await claim("h1");
  acksAreLost();
  expect(await late).toEqual({ _tag: "Lost" });
  expect(await leases.renew(second)).toEqual({ _tag: "Renewed" });
});
