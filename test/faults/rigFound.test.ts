/** What the fault rig found, by the shortest way to it. The account is in docs/reliability.md. */
import { expect, test } from "vitest";
import { agentId, shardOf, type Epoch } from "../../schemas/Address.ts";
import { encodeMessage } from "../../schemas/Call.ts";
import { Subjects } from "../../schemas/Subjects.ts";
import { Shard } from "../../services/host/Shard.ts";
import type { HostServices } from "../../services/host/HostServices.ts";
import type { Lease } from "../../core/lease/Leases.ts";
import { MemoryBroker } from "../../services/memory/MemoryBroker.ts";
import { makeMemoryBus } from "../../services/memory/MemoryBus.ts";
import { makeMemoryInbox } from "../../services/memory/MemoryInbox.ts";
import { VirtualTime } from "../../services/memory/VirtualTime.ts";

const TTL_MS = 1_000;

test("a host that was frozen past its lease does not tell callers that nothing was done", async () => {
  const time = new VirtualTime();
  const broker = new MemoryBroker({ time });
  const connection = broker.connect("host");
  const subjects = new Subjects();
  const bus = makeMemoryBus(connection);
  const id = agentId("Board", "one");
  const number = shardOf(id, subjects.layout.shards);
  const services = {
    bus, time, inbox: makeMemoryInbox(connection), leases: { ttlMs: TTL_MS }, config: { subjects },
  } as object as HostServices; // prettier-ignore
  const lease = { epoch: 1 as Epoch } as Lease;
  const shard = new Shard(services, number, lease, time.monotonicMs());
  await shard.start([]);
  const ask = async (): Promise<string> => {
    const asked = bus.request(subjects.call(number, id), encodeMessage({ kind: "state" }), {
      timeoutMs: TTL_MS / 100,
    });
    await time.advance(TTL_MS / 50);
    return (await asked)._tag;
  };
  // In the margin nobody else can have the shard: callers go on asking.
  expect(await ask()).toBe("Reply");
  await time.advance(TTL_MS);
  expect(await ask()).toBe("TimedOut");
  shard.drop();
});
