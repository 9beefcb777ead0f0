/** `agents backup --since`: a chain of backups contains what one full backup would. */
import { createHash } from "node:crypto";
import { cpSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { gunzipSync, gzipSync } from "node:zlib";
import { afterAll, beforeAll, expect, test } from "vitest";
import { Agent } from "agents";
import { agentId, type AgentId, type Sequence } from "../../schemas/Address.ts";
import { decodeEvent } from "../../schemas/JournalEvent.ts";
import { decodeManifest, filesOf } from "../../schemas/BackupFile.ts";
import { Retention } from "../../services/retention/Retention.ts";
import { rebuildAgent } from "../../core/journal/rebuildAgent.ts";
import { retentionMetrics } from "../../core/retention/RetentionMetrics.ts";
import { noMetrics } from "../../core/telemetry/Metrics.ts";
import { openReader, provisionTarget } from "../../services/wiring/joinReader.ts";
import type { Joins } from "../../services/wiring/Joins.ts";
import type { ReadPorts } from "../../services/wiring/ReadPorts.ts";
import { runProgram } from "../../services/cli/program.ts";
import { CliError } from "../../services/cli/terminal/CliError.ts";
import { machineTime } from "../../services/node/MachineTime.ts";
import { openSqliteDatabases } from "../../services/sqlite/sqliteDatabases.ts";
import { pollUntil } from "../kit/poll.ts";
import { collectingLog } from "../kit/system.ts";
import { tempFolder } from "../kit/tempFolder.ts";
import { useSystems, type System } from "../system/kit.ts";

class Ledger extends Agent<unknown, { readonly n: number }> {
  override initialState = { n: 0 };
  override onStart(): void {
    this.sql`CREATE TABLE IF NOT EXISTS notes (n INTEGER)`;
  }
  override async onRequest(): Promise<Response> {
    this.sql`INSERT INTO notes VALUES (${this.state.n})`;
    this.setState({ n: this.state.n + 1 });
    return new Response("OK");
  }
}

/** More than what always stays. */
const AHEAD_MS = 3_600_000;
/** Events that are left of each agent. */
const KEPT = 2;
/** `back` is erased and created again between two backups, and trimmed past its end. */
const NAMES = ["a", "b", "c", "later", "back"];
const folder = tempFolder("chain");
const at = (name: string): string => join(folder.path, name);
const systems = useSystems();
let system: System & { readonly options: { readonly nats: string; readonly namespace?: string } };
let ports: ReadPorts;

async function run(args: ReadonlyArray<string>, namespace = system.options.namespace!) {
  const out: string[] = [];
  const err: string[] = [];
  const joins = {
    openReader,
    openDatabases: () => openSqliteDatabases({ folder: undefined }),
    time: machineTime,
  } as unknown as Joins;
  const terminal = {
    out: (line: string) => void out.push(line),
    err: (line: string) => void err.push(line),
    interactive: false,
    env: {},
    cwd: folder.path,
  };
  const where =
    args[0] === "verify" ? [] : ["--nats", system.options.nats, "--namespace", namespace];
  const code = await runProgram([...args, ...where], joins, terminal, "0").catch(
    (error: unknown) => {
      if (!(error instanceof CliError)) throw error;
      err.push(error.message);
      return error.exitCode;
    },
  );
  return { code, out: out.join("\n"), err: err.join("\n") };
}

async function count(name: string, times: number): Promise<void> {
  for (let n = 0; n < times; n++)
    expect((await fetch(`${system.url}/agents/ledger/${name}`)).status).toBe(200);
}

/** Trims all agents to their last few events. */
async function trim(): Promise<void> {
  const leases = {
    ...ports.leases,
    ttlMs: 5_000,
    claim: async (key: string) => ({ _tag: "Claimed", lease: { key, value: "", epoch: 1 } }),
    renew: async () => ({ _tag: "Renewed" }),
    release: async () => undefined,
  };
  const retention = new Retention({
    ...ports,
    leases: leases as never,
    id: "test",
    time: { ...machineTime, nowMs: () => machineTime.nowMs() + AHEAD_MS },
    log: collectingLog(),
    metrics: retentionMetrics(noMetrics),
    classes: () => [{ className: "Ledger", limits: { events: KEPT } }],
  });
  retention.start();
  const counts = async () => {
    const found: Record<string, number> = {};
    for await (const { id, events } of ports.journal.list()) found[id.name] = events;
    return found;
  };
  await pollUntil("the trim", async () => {
    const found = await counts();
    return ["b", "later", "back"].every((name) => found[name] === KEPT);
  });
  await retention.stop();
}

const manifestIn = (name: string) =>
  decodeManifest(readFileSync(at(`${name}/manifest.json`), "utf8"));
/** Those with events. */
const filesIn = (name: string) => filesOf(manifestIn(name)).filter(({ kind }) => kind === "events");

async function seen(from: ReadPorts, id: AgentId): Promise<unknown> {
  const { state, database } = await rebuildAgent(id, from);
  try {
    return {
      state,
      notes: database.isEmpty ? [] : database.query("SELECT n FROM notes ORDER BY rowid", []).rows,
    };
  } finally {
    database.close();
  }
}

beforeAll(async () => {
  system = await systems.start({ agents: { Ledger } }, { streamGroups: 2 });
  ports = await openReader({ natsUrl: system.options.nats, namespace: system.options.namespace! });
  for (const name of ["a", "b", "c", "gone", "back"]) await count(name, 3);
  expect(await run(["backup", "sunday"])).toMatchObject({ code: 0 });
  await count("a", 5);
  expect(await run(["erase", "Ledger", "gone", "--yes"])).toMatchObject({ code: 0 });
  expect(await run(["backup", "monday", "--since", "sunday"])).toMatchObject({ code: 0 });
  expect(await run(["erase", "Ledger", "back", "--yes"])).toMatchObject({ code: 0 });
  for (const name of ["b", "later", "back"]) await count(name, 8);
  await trim();
  await count("b", 1);
  expect(await run(["backup", "tuesday", "--since", "monday"])).toMatchObject({ code: 0 });
});
afterAll(async () => {
  await ports?.close();
  folder.remove();
});

test("an increment holds what is new since the last one, and bases for what was trimmed meanwhile", async () => {
  const events = (name: string) =>
    filesIn(name).flatMap((file) =>
      gunzipSync(readFileSync(at(`${name}/${file.name}`)))
        .toString()
        .split("\n")
        .filter((line) => line !== "")
        .map((line) => JSON.parse(line) as { readonly name: string }),
    );
  const names = (name: string) => new Set(events(name).map((event) => event.name));
  expect(names("monday")).toEqual(new Set(["a", "gone"]));
  expect(names("tuesday")).toEqual(new Set(["b", "later", "back"]));
  expect(events("tuesday").length).toBeLessThan(12);
});

test("the chain verifies, and restores the same agents in another installation", async () => {
  const verified = await run(["verify", "tuesday", "--json"]);
  expect(verified).toMatchObject({ code: 0 });
  expect(JSON.parse(verified.out)).toMatchObject({ backups: 3, agents: 6, damaged: [] });
  const target = { natsUrl: system.options.nats, namespace: "elsewhere" };
  await provisionTarget(target, { shards: 8, replicas: undefined, leaseTtlMs: undefined } as never);
  expect(await run(["restore", "tuesday", "--json"], "elsewhere")).toMatchObject({ code: 0 });
  const restored = await openReader(target);
  try {
    const back: string[] = [];
    for await (const { data } of restored.journal.read(agentId("Ledger", "back"), {
      fromSeq: 1 as Sequence,
    }))
      back.push(decodeEvent(data).head.kind);
    expect(back).toEqual(["destroyed", "turns", "turns"]);
    for (const name of NAMES) {
      const id = agentId("Ledger", name);
      expect(await seen(restored, id)).toEqual(await seen(ports, id));
    }
    // Nothing of the erased agent is there but its end.
    let events = 0;
    for await (const _ of restored.journal.read(agentId("Ledger", "gone"), {
      fromSeq: 1 as Sequence,
    }))
      events++;
    expect(events).toBe(1);
  } finally {
    await restored.close();
  }
});

test("verify finds damage, and restore refuses it", async () => {
  const [{ name = "" } = {}] = filesIn("monday");
  const bad = (change: (events: string[]) => string[]) => {
    rmSync(at("bad"), { recursive: true, force: true });
    cpSync(at("monday"), at("bad"), { recursive: true });
    const file = at(`bad/${name}`);
    const bytes = gzipSync(
      change(gunzipSync(readFileSync(file)).toString().split("\n")).join("\n"),
    );
    writeFileSync(file, bytes);
    return bytes;
  };
  bad((lines) => lines.toSpliced(1, 1));
  expect((await run(["verify", "bad"])).err).toContain("has changed since it was written");
  expect((await run(["restore", "bad"], "elsewhere")).err).toContain("nothing was written");
  const whole = readFileSync(at(`bad/${name}`));
  writeFileSync(at(`bad/${name}`), whole.subarray(0, whole.length >> 1));
  for (const command of ["verify", "restore"])
    expect((await run([command, "bad"], "elsewhere")).err).toMatch(
      new RegExp(`bad/${name} is damaged or cut off, in line \\d+: unexpected end of file`),
    );
  // A middle event is gone, and the manifest knows of no more.
  const left = bad((lines) => lines.toSpliced(1, 1));
  const manifest = manifestIn("bad");
  const files = filesOf(manifest).map((file) =>
    file.name === name
      ? { ...file, lines: file.lines - 1, sum: createHash("sha256").update(left).digest("hex") }
      : file,
  );
  writeFileSync(at("bad/manifest.json"), JSON.stringify({ format: "agents.backup", v: 3, ...manifest, files })); // prettier-ignore
  const found = await run(["verify", "bad"]);
  expect(found).toMatchObject({ code: 1 });
  expect(found.out).toContain("which is missing");
  writeFileSync(at("bad/manifest.json"), JSON.stringify({ format: "agents.backup", v: 3, ...manifest, formats: 2 })); // prettier-ignore
  for (const command of ["verify", "restore"])
    expect((await run([command, "bad"], "elsewhere")).err).toContain(
      "is of a newer release: its stored formats are of version 2, and this release reads 1 at most",
    );
  renameSync(at("sunday"), at("moved"));
  for (const command of ["verify", "restore"])
    expect((await run([command, "monday"], "elsewhere")).err).toContain("Move it back there");
  renameSync(at("moved"), at("sunday"));
});

test("a backup that can't be extended is refused", async () => {
  expect((await run(["backup", "x", "--since", "nothing"])).err).toContain("not a backup");
  expect((await run(["backup", "x", "--since", "monday"], "elsewhere")).err).toContain(
    "belongs to another installation",
  );
  cpSync(at("sunday"), at("old"), { recursive: true });
  const { streams: _streams, ...old } = JSON.parse(
    readFileSync(at("old/manifest.json"), "utf8"),
  ) as Record<string, unknown>;
  writeFileSync(at("old/manifest.json"), JSON.stringify(old));
  expect((await run(["backup", "x", "--since", "old"])).err).toContain("older release");
});
