/** What commands hear of the hosts that have their calls. */
import { expect, test } from "vitest";
import { NotPermitted } from "../../core/bus/Bus.ts";
import { CallClient } from "../../core/call/CallClient.ts";
import type { LeasesShape } from "../../core/lease/Leases.ts";
import { keyOfShard } from "../../core/lease/leaseKeys.ts";
import { agentId, shardOf } from "../../schemas/Address.ts";
import { MemoryBroker } from "../../services/memory/MemoryBroker.ts";
import { makeMemoryBlobs } from "../../services/memory/MemoryBlobs.ts";
import { makeMemoryBus } from "../../services/memory/MemoryBus.ts";
import { makeMemoryLeases } from "../../services/memory/MemoryLeases.ts";
import { VirtualTime } from "../../services/memory/VirtualTime.ts";
import { watchCalls } from "../../services/wiring/watchCalls.ts";

const ID = agentId("Board", "one");
const DEADLINE_MS = 600_000;

/** A host has the shard and a call, and says nothing. */
async function make(change: (leases: LeasesShape) => LeasesShape = (leases) => leases) {
  const time = new VirtualTime();
  const broker = new MemoryBroker({ time });
  const { subjects, shards, leaseTtlMs } = broker;
  const shard = shardOf(ID, shards);
  const host = broker.connect("host");
  makeMemoryBus(host).subscribe(subjects.callsOfShard(shard), () => undefined);
  await makeMemoryLeases(host).claim(keyOfShard(shard), "host");
  const command = broker.connect("command");
  let watches = 0;
  const leases = change(makeMemoryLeases(command));
  const parts = { bus: makeMemoryBus(command), blobs: makeMemoryBlobs(command), time, subjects, shards }; // prettier-ignore
  const calls = watchCalls(
    new CallClient(parts),
    {
      ...leases,
      watch: (onChange, signal) => {
        watches++;
        return leases.watch(onChange, signal);
      },
    },
    time,
  );
  const how = { deadlineMs: DEADLINE_MS, repeatable: false };
  let said = "";
  void calls.call(ID, { kind: "state" }, how).catch((error: unknown) => {
    said = String(error);
  });
  return { time, leaseTtlMs, calls, said: () => said, watches: () => watches }; // prettier-ignore
}

test("a call whose host is lost ends long before its deadline", async () => {
  const { time, leaseTtlMs, said } = await make();
  await time.advance(4 * leaseTtlMs);
  expect(said()).toContain("its host was lost while it had the call");
});

test("a short call starts no watch", async () => {
  const { time, leaseTtlMs, watches } = await make();
  await time.advance(leaseTtlMs / 4);
  expect(watches()).toBe(0);
  await time.advance(leaseTtlMs / 4);
  expect(watches()).toBe(1);
});

test("a login without the right to watch is refused once, and its calls continue to their deadline", async () => {
  const refuse = () => Promise.reject(new NotPermitted({ message: "not permitted" }));
  const { time, leaseTtlMs, calls, said, watches } = await make((leases) => ({ ...leases, watch: refuse })); // prettier-ignore
  await time.advance(leaseTtlMs);
  expect(watches()).toBe(1);
  void calls.call(ID, { kind: "state" }, { deadlineMs: DEADLINE_MS, repeatable: true }).catch(() => undefined); // prettier-ignore
  await time.advance(leaseTtlMs);
  expect([watches(), said()]).toEqual([1, ""]);
  await time.advance(DEADLINE_MS);
  expect(said()).toContain("Agent Board/one did not answer within ");
});
