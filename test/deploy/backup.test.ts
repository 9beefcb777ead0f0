/**
 * The backup and restore of `docs/operations/history.md`, done: the broker's folder is copied while
 * the broker is stopped, everything is lost, the copy is put back, and the agents are there with
 * all that they had.
 */
import { execFileSync } from "node:child_process";
import { cpSync, rmSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, expect, test } from "vitest";
import { Senders } from "../faults/Senders.ts";
import { AgentsProcess } from "../kit/AgentsProcess.ts";
import { SECRET } from "../kit/Installation.ts";
import { tempFolder } from "../kit/tempFolder.ts";
import { deployNats, type Deployed } from "./DeployedNats.ts";

const MAIN = fileURLToPath(new URL("../../dist/services/cli/main.js", import.meta.url));
const MODULE = fileURLToPath(new URL("../faults/ledgerModule.ts", import.meta.url));
const folder = tempFolder("backup");
let nats: Deployed;
const running = new Set<AgentsProcess>();

afterAll(async () => {
  for (const each of running) await each.stop();
  await nats?.stop();
  folder.remove();
});

async function start(role: "gateway" | "host", data: string): Promise<AgentsProcess> {
  const started = await AgentsProcess.start({
    args: [role, MODULE, "--data", join(folder.path, data), ...(role === "gateway" ? ["--port", "0"] : [])], // prettier-ignore
    env: { SECRET, NATS_URL: nats.url(role) },
  });
  running.add(started);
  return started;
}

async function send(gateway: AgentsProcess, ids: ReadonlyArray<string>): Promise<object> {
  const senders = new Senders({
    url: gateway.url,
    secret: SECRET,
    deliveries: ids.map((id) => ({ agent: "one", id })),
    concurrency: 1,
    paceMs: 0,
    heldBack: 0,
  });
  await senders.finished;
  return Object.fromEntries(senders.byStatus);
}

test("a backup restores everything after a total loss, and its work continues", async () => {
  nats = await deployNats({ config: "single.conf" });
  execFileSync(process.execPath, [MAIN, "provision", "--shards", "4"], {
    env: { PATH: process.env["PATH"] ?? "", NATS_URL: nats.url("operator") },
  });
  const gateway = await start("gateway", "gateway");
  const host = await start("host", "host");
  await gateway.ready();
  expect(await send(gateway, ["a", "b", "c"])).toEqual({ 200: 3 });
  const [server] = nats.servers;
  const backup = join(folder.path, "backup");

  // Back up: the broker stops, its folder is copied. Processes may stay: they wait for it.
  await server!.stop();
  cpSync(server!.storeDir, backup, { recursive: true });

  // Lose everything: the broker's disk, the hosts' caches.
  for (const each of [gateway, host]) await each.kill();
  running.clear();
  rmSync(server!.storeDir, { recursive: true });
  rmSync(join(folder.path, "host"), { recursive: true });

  // Restore.
  cpSync(backup, server!.storeDir, { recursive: true });
  await server!.start();
  await nats.healthy();
  const [again] = [await start("gateway", "gateway-2"), await start("host", "host-2")];
  await again.ready();
  const answer = await fetch(`${again.url}/agents/ledger/one`);
  expect(await answer.json()).toEqual({ state: { count: 3 }, ids: ["a", "b", "c"] });
  // A provider that sends an old one again is known; a new one is done.
  expect(await send(again, ["c", "d"])).toEqual({ 200: 2 });
  const after = await fetch(`${again.url}/agents/ledger/one`);
  expect(await after.json()).toEqual({ state: { count: 4 }, ids: ["a", "b", "c", "d"] });
});
