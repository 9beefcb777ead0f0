/** `agents restore` and `agents import` of damaged agents, and of lives that have ended. */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { Agent } from "agents";
import { agentId } from "../../../schemas/Address.ts";
import { openReader, provisionTarget } from "../../../services/wiring/joinReader.ts";
import type { ReadPorts } from "../../../services/wiring/ReadPorts.ts";
import { runCommand } from "../../kit/runCommand.ts";
import { tempFolder } from "../../kit/tempFolder.ts";
import { useSystems, type System } from "../../system/kit.ts";

class Daily extends Agent {
  override async onStart(): Promise<void> {
    await this.schedule("0 3 * * *", "forgetOld");
  }
  override async onRequest(request: Request): Promise<Response> {
    if (request.url.endsWith("/end")) await this.destroy();
    return new Response("OK");
  }
  forgetOld(): void {}
}

const folder = tempFolder("restored");
const backup = join(folder.path, "backup");
const systems = useSystems();
let system: System & { readonly options: { readonly nats: string; readonly namespace?: string } };
let ports: ReadPorts;

const run = (args: ReadonlyArray<string>, namespace = system.options.namespace!) =>
  runCommand([...args, "--nats", system.options.nats, "--namespace", namespace]);
const request = async (name: string): Promise<void> =>
  expect((await fetch(`${system.url}/agents/daily/${name}`)).status).toBe(200);

/** Names of the agents for which an input waits. */
async function woken(namespace: string): Promise<ReadonlyArray<string>> {
  const there = await openReader({ natsUrl: system.options.nats, namespace });
  try {
    const names: string[] = [];
    for await (const { id } of there.stored("inputs")) names.push(id.name);
    return names.toSorted();
  } finally {
    await there.close();
  }
}

/** An event of a version that no release knows, as a flipped bit makes it. */
async function damage(name: string): Promise<void> {
  const id = agentId("Daily", name);
  const last = (await ports.journal.last(id))!;
  const data = Buffer.from(last.data);
  data.write("3", data.indexOf(":") + 1);
  const signal = AbortSignal.timeout(5_000);
  const stored = await ports.journal.append(id, data, { expectedSeq: last.seq, signal });
  expect(stored).toMatchObject({ _tag: "Stored" });
}

beforeAll(async () => {
  system = await systems.start({ agents: { Daily } });
  const { nats: natsUrl, namespace = "" } = system.options;
  ports = await openReader({ natsUrl, namespace });
  for (const name of ["first", "damaged", "ended", "last"]) await request(name);
  await fetch(`${system.url}/agents/daily/ended/end`);
  await damage("damaged");
  expect(await run(["backup", backup])).toMatchObject({ code: 0 });
  const settings = { shards: 8, replicas: undefined, leaseTtlMs: undefined };
  await provisionTarget({ natsUrl, namespace: "elsewhere" }, settings as never);
});
afterAll(async () => {
  await ports?.close();
  folder.remove();
});

test("an agent with an event of an unknown version does not keep the others' schedules from running", async () => {
  const restored = await run(["restore", backup, "--json"], "elsewhere");
  expect(restored).toMatchObject({ code: 0 });
  expect(JSON.parse(restored.out)).toMatchObject({ agents: 4, damaged: 1, timers: 2 });
  expect(await woken("elsewhere")).toEqual(expect.arrayContaining(["first", "last"]));
});

test("an agent whose life has ended is not started again", async () => {
  expect(await woken("elsewhere")).not.toContain("ended");
  const exported = await run(["export", "Daily", "ended"]);
  const file = join(folder.path, "ended.jsonl");
  writeFileSync(file, `${exported.out}\n`);
  const imported = await run(["import", file, "--as", "again", "--json"], "elsewhere");
  expect(imported).toMatchObject({ code: 0 });
  expect(JSON.parse(imported.out)).toMatchObject({ timers: 0 });
  expect(await woken("elsewhere")).not.toContain("again");
});
