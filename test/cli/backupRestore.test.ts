/** `agents backup` of a working installation, and `agents restore` into one of another shape. */
import { cpSync, readFileSync, readdirSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { agentId } from "../../schemas/Address.ts";
import { decodeManifest, filesOf } from "../../schemas/BackupFile.ts";
import { Installation, type InstallationOptions } from "../kit/Installation.ts";
import { pollUntil } from "../kit/poll.ts";
import { tempFolder } from "../kit/tempFolder.ts";
import { LEASE_TTL_MS_DEFAULT as leaseTtlMs } from "../../services/nats/setup/provision.ts";

const MODULE = fileURLToPath(new URL("./keeperModule.ts", import.meta.url));
/** Past it: events lie in the blob store. */
const PAYLOAD_BYTES_MAX = 256 * 1024;
const AGENTS = Array.from({ length: 12 }, (_, n) => `keeper-${n}`);
/** Stored before the backup begins; more come while it works. */
const STORED_BEFORE = 120;

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
let source: Installation;
let target: Installation;
/** Keys of inputs that were stored before the backup began. */
let promised: ReadonlyArray<string> = [];
let told: Record<string, number>;

const install = (options: Partial<InstallationOptions>): Promise<Installation> =>
  Installation.start({ shards: 4, leaseTtlMs, module: MODULE, gateway: false, maxPayload: PAYLOAD_BYTES_MAX, ...options }); // prettier-ignore

async function startHost(installation: Installation, env: Record<string, string> = {}) {
  const host = await installation.startHost("host", { env });
  await host.ready();
  return host;
}

async function waiting({ ports }: Installation): Promise<string[]> {
  const found: string[] = [];
  for await (const { id } of ports.stored("inputs")) found.push(`${id.class} ${id.name}`);
  return found;
}

beforeAll(async () => {
  [source, target] = await Promise.all([
    install({}),
    install({ namespace: "elsewhere", shards: 8, streamGroups: 4 }),
  ]);
  await startHost(source, { HOLD: "1" });
  const call = source.caller("Keeper");
  for (const name of AGENTS) await call(name, "note", "the first");
  await call("keeper-0", "noteLong", 2 * PAYLOAD_BYTES_MAX);
  await call("keeper-1", "plan", 3_600, "later");
  await call("keeper-2", "enqueueSlow", "queued");
  await call("keeper-3", "enqueue", "dies");
  await pollUntil("a dead letter", async () => (await source.ports.deadLetters.count()) === 1);
  await call("gone", "note", "what is erased");
  expect(await source.agents("erase", "Keeper", "gone", "--yes")).toMatchObject({ code: 0 });
  // No host knows the class: it waits for as long as it takes.
  await source.publish(agentId("Unknown", "one"), { key: "unknown:1" }, "unknown:1");

  const keys: string[] = [];
  let sending = true;
  const senders = (async () => {
    for (let n = 0; sending; n++) {
      const [id, key] = [agentId("Keeper", AGENTS[n % AGENTS.length]!), `hook:${n}`];
      await source.publish(id, { key }, key);
      keys.push(key);
    }
  })();
  await pollUntil("some inputs are stored", () => keys.length >= STORED_BEFORE);
  promised = [...keys];
  const backup = await source.agents("backup", saved, "--json");
  sending = false;
  await senders;
  expect(backup).toMatchObject({ code: 0, err: "" });
  told = JSON.parse(backup.out) as Record<string, number>;
  expect(keys.length).toBeGreaterThan(promised.length);
});

afterAll(async () => {
  for (const each of [source, target]) await each?.kill();
  folder.remove();
});

describe("agents backup", () => {
  it("refuses a folder that is not empty", async () => {
    const again = await source.agents("backup", saved);
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
  it("says before it writes what to do if it is interrupted", async () => {
    const empty = await install({ namespace: "interrupted" });
    try {
      const restored = await empty.agents("restore", saved);
      expect(restored.code).toBe(0);
      expect(restored.err).toContain("If this is interrupted, they are incomplete");
    } finally {
      await empty.kill();
    }
  });

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
      const refused = await target.agents("restore", bad);
      expect(refused).toMatchObject({ code: 1 });
      expect(refused.err).toContain(why);
    }
    expect((await target.agents("list")).out).toBe("");
  });

  it("refuses an installation with a host, and one with agents", async () => {
    const host = await startHost(target);
    const refused = await target.agents("restore", saved);
    expect(refused.err).toContain("Stop the hosts");
    await host.stop();
    const again = await source.agents("restore", saved);
    expect(again.err).toContain("This installation has agents");
    expect(again.err).toContain("If an interrupted restore wrote them, they are incomplete");
    expect(again.err).not.toContain("Writing the agents");
  });

  it("restores all agents: inputs stored when the backup began run once, and waiting work continues", async () => {
    const restored = await target.agents("restore", saved, "--json");
    expect(restored).toMatchObject({ code: 0, err: "" });
    expect(JSON.parse(restored.out)).toMatchObject({ letters: 1, timers: 1, damaged: 0 });
    expect(await waiting(target)).toContain("Unknown one");
    await startHost(target);
    await pollUntil("every input of a class that is known is done", async () => {
      const left = (await waiting(target)).filter((agent) => !agent.startsWith("Unknown"));
      return left.length === 0 || { done: false, saw: left };
    });
    const kept = new Map<string, Kept>();
    const call = target.caller("Keeper");
    for (const name of AGENTS) kept.set(name, await call<Kept>(name, "all"));
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
      const { state } = await call<Kept>("keeper-2", "all");
      return state.rung.includes("queued") || { done: false, saw: state };
    });
    expect((await target.agents("dead", "list")).out).toContain("it can't be done: dies");
    expect((await call<Kept>("gone", "all")).notes).toEqual([]);
  });
});
