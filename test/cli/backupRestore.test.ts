/**
 * `agents backup` of a working installation, and `agents restore` into one with other shards,
 * stream groups and namespace: everything that was stored when the backup began is there, is done
 * once, and continues.
 */
import { cpSync, readFileSync, readdirSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { agentId } from "../../schemas/Address.ts";
import { decodeManifest, filesOf } from "../../schemas/BackupFile.ts";
import { encodeEnvelope } from "../../schemas/InboxEnvelope.ts";
import { openReader } from "../../services/wiring/joinReader.ts";
import type { ReadPorts } from "../../services/wiring/Joins.ts";
import { AgentsProcess } from "../kit/AgentsProcess.ts";
import { startNats, type TestNats } from "../kit/natsServer.ts";
import { pollUntil } from "../kit/poll.ts";
import { runAgents } from "../kit/runAgents.ts";
import { tempFolder } from "../kit/tempFolder.ts";

const MODULE = fileURLToPath(new URL("./keeperModule.ts", import.meta.url));
/** Past it: events lie in the blob store. */
const PAYLOAD_BYTES_MAX = 256 * 1024;
const AGENTS = Array.from({ length: 12 }, (_, n) => `keeper-${n}`);
/** Stored before the backup begins; more come while it works. */
const STORED_BEFORE = 120;

interface Installation {
  readonly nats: TestNats;
  readonly namespace: string;
  readonly ports: ReadPorts;
}

interface Kept {
  readonly state: { readonly notes: number; readonly rung: ReadonlyArray<string> };
  readonly notes: ReadonlyArray<string>;
  readonly schedules: ReadonlyArray<{ readonly payload: string }>;
}

const folder = tempFolder("saved");
const saved = join(folder.path, "backup");
const manifest = () => decodeManifest(readFileSync(join(saved, "manifest.json"), "utf8"));
const fileOf = (kind: string): string =>
  filesOf(manifest()).find((file) => file.kind === kind)!.name;
const hosts: AgentsProcess[] = [];
let source: Installation;
let target: Installation;
/** Keys of inputs that were stored before the backup began. */
let promised: ReadonlyArray<string> = [];
let told: Record<string, number>;

const run = ({ nats, namespace }: Pick<Installation, "nats" | "namespace">, ...args: string[]) =>
  runAgents(args, { NATS_URL: nats.url, AGENTS_NAMESPACE: namespace });

async function install(namespace: string, ...provisioning: string[]): Promise<Installation> {
  const nats = await startNats({ maxPayload: PAYLOAD_BYTES_MAX });
  expect(await run({ nats, namespace }, "provision", ...provisioning)).toMatchObject({ code: 0 });
  return { nats, namespace, ports: await openReader({ natsUrl: nats.url, namespace }) };
}

async function startHost({ nats, namespace }: Installation, env: Record<string, string> = {}) {
  const data = join(folder.path, `host-${namespace}`);
  const host = await AgentsProcess.start({
    args: ["host", MODULE, "--nats", nats.url, "--namespace", namespace, "--data", data],
    env,
  });
  hosts.push(host);
  await host.ready();
  return host;
}

async function call({ ports }: Installation, name: string, method: string, ...args: unknown[]) {
  const { reply } = await ports.calls.call(
    agentId("Keeper", name),
    { kind: "rpc", method, args },
    { deadlineMs: 20_000, repeatable: false },
  );
  if (reply.kind !== "result") throw new Error(JSON.stringify(reply));
  return reply.value;
}
const all = async (installation: Installation, name: string): Promise<Kept> =>
  (await call(installation, name, "all")) as Kept;

async function publish({ ports }: Installation, className: string, name: string, key: string) {
  const head = { key, kind: "webhook", time: Date.now(), method: "POST", url: "http://localhost/" };
  const envelope = encodeEnvelope(head as never, new TextEncoder().encode(key));
  const signal = AbortSignal.timeout(10_000);
  const stored = await ports.inbox.publish(agentId(className, name), envelope, { signal });
  expect(stored._tag).toBe("Stored");
}

async function waiting({ ports }: Installation): Promise<string[]> {
  const found: string[] = [];
  for await (const { id } of ports.stored("inputs")) found.push(`${id.class} ${id.name}`);
  return found;
}

beforeAll(async () => {
  [source, target] = await Promise.all([
    install("agents", "--shards", "4"),
    install("elsewhere", "--shards", "8", "--stream-groups", "4"),
  ]);
  await startHost(source, { HOLD: "1" });
  for (const name of AGENTS) await call(source, name, "note", "the first");
  await call(source, "keeper-0", "noteLong", 2 * PAYLOAD_BYTES_MAX);
  await call(source, "keeper-1", "plan", 3_600, "later");
  await call(source, "keeper-2", "enqueueSlow", "queued");
  await call(source, "keeper-3", "enqueue", "dies");
  await pollUntil("a dead letter", async () => (await source.ports.deadLetters.count()) === 1);
  await call(source, "gone", "note", "what is erased");
  expect(await run(source, "erase", "Keeper", "gone", "--yes")).toMatchObject({ code: 0 });
  // No host knows the class: it waits for as long as it takes.
  await publish(source, "Unknown", "one", "unknown:1");

  const keys: string[] = [];
  let sending = true;
  const senders = (async () => {
    for (let n = 0; sending; n++) {
      await publish(source, "Keeper", AGENTS[n % AGENTS.length]!, `hook:${n}`);
      keys.push(`hook:${n}`);
    }
  })();
  await pollUntil("some inputs are stored", () => keys.length >= STORED_BEFORE);
  promised = [...keys];
  const backup = await run(source, "backup", saved, "--json");
  sending = false;
  await senders;
  expect(backup).toMatchObject({ code: 0, err: "" });
  told = JSON.parse(backup.out) as Record<string, number>;
  expect(keys.length).toBeGreaterThan(promised.length);
});

afterAll(async () => {
  for (const host of hosts) await host.kill();
  for (const each of [source, target]) {
    await each?.ports.close();
    await each?.nats.stop();
  }
  folder.remove();
});

describe("agents backup", () => {
  it("refuses a folder that is not empty", async () => {
    const again = await run(source, "backup", saved);
    expect(again.code).toBe(1);
    expect(again.err).toContain("not empty");
  });

  it("is readable by its owner only: the folder and each file in it", () => {
    const files = readdirSync(saved);
    expect(files.toSorted()).toEqual(
      [...filesOf(manifest()).map(({ name }) => name), "manifest.json"].toSorted(),
    );
    for (const path of [saved, ...files.map((name) => join(saved, name))])
      expect([path, statSync(path).mode & 0o077]).toEqual([path, 0]);
  });

  it("reports how much it has saved", () => {
    expect(told["letters"]).toBe(1);
    expect(told["inputs"]).toBeGreaterThanOrEqual(1);
    expect(told["events"]).toBeGreaterThan(AGENTS.length);
  });
});

describe("agents restore", () => {
  it("refuses a backup that is damaged or was not finished, and writes nothing", async () => {
    const bad = join(folder.path, "bad");
    const damage: ReadonlyArray<readonly [string, () => void]> = [
      ["manifest.json", () => rmSync(join(bad, "manifest.json"))],
      [
        "nothing was written",
        () => {
          const file = join(bad, fileOf("events"));
          const bytes = readFileSync(file);
          bytes[bytes.length >> 1]! ^= 0x10;
          writeFileSync(file, bytes);
        },
      ],
      [
        "nothing was written",
        () => {
          const file = join(bad, fileOf("events"));
          const bytes = readFileSync(file);
          writeFileSync(file, bytes.subarray(0, bytes.length >> 1));
        },
      ],
      ["nothing was written", () => rmSync(join(bad, fileOf("inputs")))],
      [
        "were saved",
        () => {
          const file = join(bad, "manifest.json");
          writeFileSync(file, readFileSync(file, "utf8").replace('"lines": 1,', '"lines": 2,'));
        },
      ],
    ];
    for (const [why, spoil] of damage) {
      rmSync(bad, { recursive: true, force: true });
      cpSync(saved, bad, { recursive: true });
      spoil();
      const refused = await run(target, "restore", bad);
      expect(refused).toMatchObject({ code: 1 });
      expect(refused.err).toContain(why);
    }
    expect((await run(target, "list")).out).toBe("");
  });

  it("refuses an installation with a host, and one with agents", async () => {
    const host = await startHost(target);
    const refused = await run(target, "restore", saved);
    expect(refused.err).toContain("Stop the hosts");
    await host.stop();
    expect((await run(source, "restore", saved)).err).toContain("This installation has agents");
  });

  it("restores all agents: inputs stored when the backup began run once, and waiting work continues", async () => {
    const restored = await run(target, "restore", saved, "--json");
    expect(restored).toMatchObject({ code: 0, err: "" });
    expect(JSON.parse(restored.out)).toMatchObject({ letters: 1, timers: 1, damaged: 0 });
    expect(await waiting(target)).toContain("Unknown one");
    await startHost(target);
    await pollUntil("every input of a class that is known is done", async () => {
      const left = (await waiting(target)).filter((agent) => !agent.startsWith("Unknown"));
      return left.length === 0 || { done: false, saw: left };
    });
    const kept = new Map<string, Kept>();
    for (const name of AGENTS) kept.set(name, await all(target, name));
    const done = [...kept.values()].flatMap(({ notes }) =>
      notes.filter((n) => n.startsWith("hook:")),
    );
    expect(new Set(done).size).toBe(done.length);
    expect(promised.filter((key) => !done.includes(key))).toEqual([]);
    for (const { notes, state } of kept.values()) {
      expect(notes[0]).toBe("the first");
      expect(state.notes).toBe(notes.length);
    }
    expect(kept.get("keeper-0")!.notes).toContain(`${2 * PAYLOAD_BYTES_MAX} times y`);
    expect(kept.get("keeper-1")!.schedules).toMatchObject([{ payload: "later" }]);
    await pollUntil("the queue has gone on", async () => {
      const { state } = await all(target, "keeper-2");
      return state.rung.includes("queued") || { done: false, saw: state };
    });
    expect((await run(target, "dead", "list")).out).toContain("it can't be done: dies");
    expect((await all(target, "gone")).notes).toEqual([]);
  });
});
