/** A backup whose process is killed continues when it is run again. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { appendFileSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, expect, test } from "vitest";
import { endLife } from "../../core/journal/endLife.ts";
import { trimAgent } from "../../core/retention/trimAgent.ts";
import { rebuildAgent } from "../../core/journal/rebuildAgent.ts";
import { agentId, type AgentId, type Epoch, type Sequence } from "../../schemas/Address.ts";
import { encodeEvent } from "../../schemas/JournalEvent.ts";
import { identityOf } from "../../services/lock/ProcessIdentity.ts";
import { backup, type BackupOptions } from "../../services/cli/commands/backup.ts";
import { addVerify } from "../../services/cli/commands/verify.ts";
import { backupsIn } from "../../services/cli/agents/erasure/erasureReceipt.ts";
import { openBackup, restoreBackup } from "../../services/cli/agents/backup/restoreBackup.ts";
import { machineTime } from "../../services/node/MachineTime.ts";
import { openSqliteDatabases } from "../../services/sqlite/sqliteDatabases.ts";
import { openReader, provisionTarget } from "../../services/wiring/joinReader.ts";
import type { Joins } from "../../services/wiring/Joins.ts";
import type { ReadPorts } from "../../services/wiring/ReadPorts.ts";
import { Command } from "commander";
import { startNats, type TestNats } from "../kit/natsServer.ts";
import { pollUntil } from "../kit/poll.ts";
import { runAgents } from "../kit/runAgents.ts";
import { tempFolder } from "../kit/tempFolder.ts";
import { SIZES, terminalAt } from "./backupSizes.ts";

const PART = fileURLToPath(new URL("./backupPart.ts", import.meta.url));
const AGENTS = 20;
/** Events of each agent: some ranges, and every agent has some in each. */
const EVENTS = 40;
/** More than what always stays. */
const AHEAD_MS = 3_600_000;
const folder = tempFolder("resume");
const saved = join(folder.path, "saved");
const log = join(saved, "unfinished.jsonl");
let nats: TestNats;
let ports: ReadPorts;
const lasts = new Map<string, Sequence>();
const idOf = (n: number): AgentId => agentId("Ledger", `a${n}`);

async function write(id: AgentId, n: number): Promise<void> {
  const after = lasts.get(id.name) ?? (0 as Sequence);
  const data = encodeEvent({
    id: `${id.name}-${n}`, agent: [id.class, id.name], kind: "turns", host: "h", epoch: 1 as Epoch, time: Date.now(), after,
    turns: [{ cause: { kind: "webhook", id: `github:${n}` }, state: { set: { n } }, done: [`github:${n}`] }],
  }); // prettier-ignore
  const stored = await ports.journal.append(id, data, {
    expectedSeq: after,
    signal: AbortSignal.timeout(10_000),
  });
  if (stored._tag !== "Stored") throw new Error(stored._tag);
  lasts.set(id.name, stored.seq);
}

async function open(namespace: string): Promise<ReadPorts> {
  const target = { natsUrl: nats.url, namespace };
  await provisionTarget(target, { shards: 4, replicas: undefined, leaseTtlMs: undefined });
  return openReader(target);
}

/** Runs it again, and counts the ranges that are read. */
async function again(more: Partial<BackupOptions> = {}) {
  let ranges = 0;
  const { terminal, out, err } = terminalAt(folder.path);
  const counted: ReadPorts = {
    ...ports,
    changes: {
      ...ports.changes,
      between: (group, range) => {
        ranges++;
        return ports.changes.between(group, range);
      },
    },
  };
  const options = { folder: saved, since: undefined, json: true, sizes: SIZES, ...more };
  await backup((use) => use(counted), terminal, machineTime, options);
  return { ranges, out, err };
}

async function verify(path: string) {
  const { terminal, out } = terminalAt(folder.path);
  const joins = {
    openDatabases: () => openSqliteDatabases({ folder: undefined }),
    time: machineTime,
  } as unknown as Joins;
  const program = new Command();
  addVerify(program, { joins, terminal } as never);
  await program.parseAsync(["verify", path, "--jobs", "1", "--json"], { from: "user" });
  return JSON.parse(out[0]!) as Record<string, unknown>;
}

const pieces = (of = log): string[] => readFileSync(of, "utf8").split("\n").slice(1, -1);

/** A process that has saved the inputs and three ranges, and does not get on. */
async function begun(into: string) {
  const flags = ["--conditions=agents-source", "--import", "tsx", PART];
  const args = [...flags, nats.url, "here", into];
  const child = spawn(process.execPath, args, { stdio: ["ignore", "inherit", "pipe"] });
  let err = "";
  child.stderr.setEncoding("utf8").on("data", (text: string) => (err += text));
  await pollUntil("inputs and three ranges are saved", () => {
    try {
      return pieces(join(into, "unfinished.jsonl")).length === 4;
    } catch {
      return child.exitCode === null ? false : { done: true, saw: `${child.exitCode}: ${err}` };
    }
  });
  const end = async (signal: NodeJS.Signals) => {
    const ended = once(child, "close");
    child.kill(signal);
    await ended;
    return { code: child.exitCode, err };
  };
  return { end };
}

beforeAll(async () => {
  nats = await startNats();
  ports = await open("here");
  for (let n = 0; n < EVENTS; n++)
    await Promise.all(Array.from({ length: AGENTS }, (_, agent) => write(idOf(agent), n)));
  const { end } = await begun(saved);
  await end("SIGKILL");
});
afterAll(async () => {
  await ports?.close();
  await nats?.stop();
  folder.remove();
});

test("a backup that a signal interrupts says how to continue it, and does", async () => {
  const into = join(folder.path, "interrupted");
  const { end } = await begun(into);
  expect(await end("SIGINT")).toEqual({
    code: 130,
    err: "The backup was interrupted. To continue it, run the same command again.\n",
  });
  const { out, err } = await again({ folder: into });
  expect(err[0]).toContain("continuing the backup that began at");
  expect(out[0]).toContain(`"events":${AGENTS * EVENTS}`);
});

test("a backup that is interrupted before it has connected says so, too", async () => {
  const { terminal } = terminalAt(folder.path);
  let tried = false;
  const never = (): Promise<never> => {
    tried = true;
    return new Promise(() => undefined);
  };
  const ended = backup(never, terminal, machineTime, { folder: join(folder.path, "never") });
  const said = expect(ended).rejects.toThrow("The backup was interrupted.");
  await pollUntil("it connects", () => tried || { done: false, saw: tried });
  process.emit("SIGTERM");
  await said;
});

test("an unfinished backup is recognised, and resumes only with the same options", async () => {
  const other = join(folder.path, "other");
  mkdirSync(other);
  writeFileSync(join(other, "notes.txt"), "");
  await expect(again({ folder: other })).rejects.toThrow("is not empty");
  await expect(verify(saved)).rejects.toThrow("continues an unfinished backup");
  await expect(backupsIn([folder.path])).rejects.toThrow(
    /unfinished backup, and nothing was removed: run "agents backup/,
  );
  const full = join(folder.path, "full");
  await again({ folder: full });
  await expect(again({ folder: full })).rejects.toThrow("is not empty");
  await expect(again({ since: full })).rejects.toThrow("was begun without --since");
  const holder = identityOf(process.ppid);
  writeFileSync(join(saved, "unfinished.lock"), JSON.stringify({ holder }));
  await expect(again()).rejects.toThrow(`Process ${process.ppid} is writing to`);
});

test("saved parts are kept, and the rest is read from the journals as they are by then", async () => {
  const holder = { pid: process.pid, startedAt: "of a process that has ended" };
  writeFileSync(join(saved, "unfinished.lock"), JSON.stringify({ holder }));
  // A line that was cut off, and a file whose bytes are others.
  const [, , second = ""] = pieces();
  const { files } = JSON.parse(second) as { files: ReadonlyArray<{ readonly name: string }> };
  const damaged = join(saved, files[0]!.name);
  const bytes = readFileSync(damaged);
  bytes[bytes.length >> 1]! ^= 1;
  writeFileSync(damaged, bytes);
  appendFileSync(log, '{"piece":"events-0-');
  // Trimmed meanwhile: all that the backup had to save of it. Erased: what it has saved as well.
  const [trimmed, erased] = [idOf(0), idOf(1)];
  await write(trimmed, EVENTS);
  const { databases, close } = await openSqliteDatabases({ folder: undefined });
  const time = { nowMs: () => Date.now() + AHEAD_MS };
  const size = { first: (await ports.journal.first(trimmed))!.seq, events: EVENTS + 1 };
  await trimAgent(trimmed, { ...ports, databases, time }, { limits: { events: 1 }, ...size });
  close();
  const env = { NATS_URL: nats.url, AGENTS_NAMESPACE: "here" };
  expect(await runAgents(["erase", "Ledger", erased.name, "--yes"], env)).toMatchObject({
    code: 0,
  });

  const { ranges, out, err } = await again();
  const total = Math.ceil((AGENTS * EVENTS) / SIZES.rangeEventsMin);
  // Two were whole. What came since is read twice.
  expect(ranges).toBe(total - 2 + 2);
  expect(err[0]).toContain("continuing the backup that began");
  expect(JSON.parse(out[0]!)).toMatchObject({ inputs: 0, letters: 0 });
  expect(readdirSync(saved).filter((name) => /unfinished|edges/.test(name))).toEqual([]);
  expect(await verify(saved)).toMatchObject({ agents: AGENTS, damaged: [] });

  const there = await open("there");
  const { terminal } = terminalAt(folder.path);
  await restoreBackup(there, terminal, machineTime, { chain: await openBackup(saved), json: true });
  for (let n = 0; n < AGENTS; n++) {
    const { state, image, database } = await rebuildAgent(idOf(n), there);
    database.close();
    const keys = Array.from({ length: EVENTS }, (_, key) => `github:${key}`);
    const done = image.done.toArray().map(([key]) => key);
    if (n === 1) expect({ state, done }).toEqual({ state: undefined, done: [] });
    else {
      expect(state).toEqual({ n: EVENTS - 1 });
      expect(done.toSorted()).toEqual(keys.toSorted());
    }
  }
  await there.close();
});

test("an agent that is being erased is in the backup as erased", async () => {
  const id = agentId("Ledger", "half");
  for (let n = 0; n < 5; n++) await write(id, n);
  const signal = AbortSignal.timeout(10_000);
  const end = await endLife(id, { journal: ports.journal, time: machineTime, host: "erase", epoch: undefined, signal }); // prettier-ignore
  // As `agents erase` leaves the journal when it has removed half of it.
  await ports.journal.trim(id, (end - 2) as Sequence);
  const path = join(folder.path, "half");
  await again({ folder: path });
  expect(await verify(path)).toMatchObject({ agents: AGENTS + 1, damaged: [] });
  const there = await open("half");
  const { terminal } = terminalAt(folder.path);
  await restoreBackup(there, terminal, machineTime, { chain: await openBackup(path), json: true });
  const { state, database } = await rebuildAgent(id, there);
  database.close();
  expect(state).toBeUndefined();
  await there.close();
});

test("several processes verify it together, and report what is damaged", async () => {
  const args = ["verify", saved, "--json", "--jobs"];
  const whole = await runAgents([...args, "2"], {});
  expect(JSON.parse(whole.out)).toEqual(await verify(saved));
  const name = readdirSync(saved).find((file) => /^events.*-1\.jsonl\.gz$/.test(file))!;
  const path = join(saved, name);
  const bytes = readFileSync(path);
  writeFileSync(path, bytes.subarray(0, bytes.length >> 1));
  const damaged = await runAgents([...args, "2"], {});
  expect(damaged).toMatchObject({ code: 1, out: "" });
  expect(damaged.err).toContain("is damaged");
});
