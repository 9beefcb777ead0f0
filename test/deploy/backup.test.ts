/** The backup and restore of `docs/operations/history.md`, done: the copied folder has it all. */
import { cpSync, rmSync } from "node:fs";
import { afterAll, expect, test } from "vitest";
import { Senders } from "../faults/Senders.ts";
import type { AgentsProcess } from "../kit/AgentsProcess.ts";
import { Installation, SECRET } from "../kit/Installation.ts";
import { pollUntil } from "../kit/poll.ts";
import { deployNats } from "./DeployedNats.ts";
import { LEASE_TTL_MS_DEFAULT as leaseTtlMs } from "../../services/nats/setup/provision.ts";

let installation: Installation;
afterAll(() => installation?.stop());

/** Resolves when all are applied or, on a busy machine, stored. */
async function send(gateway: AgentsProcess, ids: ReadonlyArray<string>): Promise<void> {
  const senders = new Senders({
    url: gateway.url,
    secret: SECRET,
    deliveries: ids.map((id) => ({ agent: "one", id })),
    concurrency: 1,
    paceMs: 0,
    heldBack: 0,
  });
  await senders.finished;
  const sent = [...senders.byStatus].filter(([status]) => status === 200 || status === 202);
  expect(sent.reduce((sum, [, count]) => sum + count, 0)).toBe(ids.length);
}

test("a backup restores everything after a total loss, and its work continues", async () => {
  const nats = await deployNats({ config: "single.conf" });
  installation = await Installation.start({ broker: nats, shards: 4, leaseTtlMs });
  const { gateway } = installation;
  const host = await installation.startHost("host");
  await gateway.ready();
  await send(gateway, ["a", "b", "c"]);
  const [server] = nats.servers;
  const backup = installation.pathOf("backup");

  // Back up: the broker stops, its folder is copied. Processes may stay: they wait for it.
  await server!.stop();
  cpSync(server!.storeDir, backup, { recursive: true });

  // Lose everything: the broker's disk, the hosts' caches.
  for (const each of [gateway, host]) await each.kill();
  rmSync(server!.storeDir, { recursive: true });
  rmSync(installation.pathOf("host"), { recursive: true });

  // Restore.
  cpSync(backup, server!.storeDir, { recursive: true });
  await server!.start();
  await nats.healthy();
  const again = await installation.startGateway();
  await installation.startHost("host-2");
  await again.ready();
  await untilState(again, ["a", "b", "c"]);
  // A provider that sends an old one again is known; a new one is done.
  await send(again, ["c", "d"]);
  await untilState(again, ["a", "b", "c", "d"]);
});

const untilState = (gateway: AgentsProcess, ids: ReadonlyArray<string>): Promise<unknown> =>
  pollUntil("each webhook is applied once, in order", async () => {
    const response = await fetch(`${gateway.url}/agents/ledger/one`);
    const saw = await response.text();
    return saw === JSON.stringify({ state: { count: ids.length }, ids }) || { done: false, saw };
  });
