/** `agents query` as people run it, and `query` in a module's `fetch`, on real processes. */
import { spawn } from "node:child_process";
import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, expect, test } from "vitest";
import { agentId, type Sequence } from "../../schemas/Address.ts";
import { decodeEvent } from "../../schemas/JournalEvent.ts";
import { trimAgent } from "../../core/retention/trimAgent.ts";
import { machineTime } from "../../services/node/MachineTime.ts";
import { QUESTIONS } from "../../core/query/askHosts.ts";
import type { AgentsProcess } from "../kit/AgentsProcess.ts";
import { Installation } from "../kit/Installation.ts";
import { pollUntil } from "../kit/poll.ts";
import { runCommand } from "../kit/runCommand.ts";
import { tempFolder } from "../kit/tempFolder.ts";

const MODULE = fileURLToPath(new URL("./shopModule.ts", import.meta.url));
const MAIN = fileURLToPath(new URL("../../dist/services/cli/main.js", import.meta.url));
/** Retention keeps a minute; this is later. */
const AHEAD_MS = 3_600_000;
const PAGE_BYTES = 4096; // SQLite's, as the runtime sets it
const HOSTILE = `o'hara"; DROP TABLE Shop; --`;

const folder = tempFolder("query");
/** Where commands keep what is theirs: below their working folder. */
const data = join(folder.path, ".agents");
let installation: Installation;
let ports: Installation["ports"];
let host: AgentsProcess;

/** A command in this process. */
const agents = (...args: string[]) =>
  runCommand([...args, "--nats", installation.nats.url], { terminal: { cwd: folder.path } });
async function rows(sql: string, ...args: string[]): Promise<unknown> {
  const ran = await agents("query", sql, "--json", ...args);
  if (ran.code !== 0) throw new Error(ran.err);
  return JSON.parse(ran.out);
}
/** From the view in the data folder. */
const local = (sql: string, ...args: string[]) => rows(sql, "--local", ...args);
const call = (className: string, name: string, method: string, ...args: unknown[]) =>
  installation.call(agentId(className, name), method, ...args);

/** A request that the module's `fetch` answers. */
async function ask(path: string): Promise<{ readonly status: number; readonly text: string }> {
  const response = await fetch(`${installation.gateway.url}${path}`);
  return { status: response.status, text: await response.text() };
}
const asked = (sql: string) => ask(`/query?sql=${encodeURIComponent(sql)}`);

/** All bytes of a folder's files. */
const bytesIn = (path: string): string =>
  readdirSync(path, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => readFileSync(join(entry.parentPath, entry.name), "latin1"))
    .join("");

/** Jobs of an agent that fail; resolves when the last of them has. */
async function failJobs(name: string, messages: ReadonlyArray<string>): Promise<void> {
  const before = await failuresOf(name);
  for (const message of messages) await call("Shop", name, "failLater", message);
  await pollUntil("the jobs have failed", async () => {
    const saw = (await failuresOf(name)) - before;
    return saw === messages.length || { done: false, saw };
  });
}

async function failuresOf(name: string): Promise<number> {
  let count = 0;
  for await (const { data: event } of ports.journal.read(agentId("Shop", name), {
    fromSeq: 1 as never,
  }))
    // prettier-ignore
    count += decodeEvent(event).head.turns.filter(({ error }) => error !== undefined).length;
  return count;
}

beforeAll(async () => {
  installation = await Installation.start({ shards: 4, streamGroups: 2, module: MODULE });
  ({ ports } = installation);
  host = await installation.startHost("host");
  await host.ready();
  await installation.gateway.ready();
  for (let n = 0; n < 20; n++) await call("Shop", `shop-${n}`, "sell", n);
  await call("Shop", HOSTILE, "sell", 1_000);
  await call("Customer", "ann", "pay", 7);
});
afterAll(async () => {
  await installation?.kill();
  folder.remove();
});

test("one SELECT covers all agents of a class, and sees what was stored a moment ago", async () => {
  const rich = "SELECT name, state->>'sold' AS sold FROM Shop WHERE state->>'sold' > 17 ORDER BY 2";
  expect(await rows(rich)).toEqual([
    { name: "shop-18", sold: 18 },
    { name: "shop-19", sold: 19 },
    { name: HOSTILE, sold: 1_000 },
  ]);
  await call("Shop", "shop-3", "sell", 50);
  expect(await rows("SELECT state->>'sold' AS sold FROM Shop WHERE name = 'shop-3'")).toEqual([
    { sold: 53 },
  ]);
  const both = "SELECT s.name, c.name AS who FROM Shop s, Customer c WHERE s.name = 'shop-' || (c.state->>'spent')"; // prettier-ignore
  expect(await rows(both)).toEqual([{ name: "shop-7", who: "ann" }]);
  const table = await agents("query");
  expect(table.out).toMatch(/^class\s+agents\s+time/);
  expect(table.out).toMatch(/Customer\s+1 /);
  expect(table.out).toMatch(/Shop\s+21 /);
  expect(table.err).toMatch(/^2 rows, up to event \d+, \d+$/m);
});

test("a query covers schedules, errors and sizes, and wakes no agent", async () => {
  await call("Shop", "shop-1", "plan", 3_600);
  await failJobs("shop-2", ["no such article"]);
  const planned = "SELECT name, due > '2026' AS is_due, schedules->0->>'callback' AS what FROM Shop WHERE due IS NOT NULL"; // prettier-ignore
  expect(await rows(planned)).toEqual([{ name: "shop-1", is_due: 1, what: "restock" }]);
  const last = await ports.journal.last(agentId("Shop", "shop-2"));
  const failed = "SELECT class, name, errors, error, seq FROM agents WHERE errors > 0";
  expect(await rows(failed)).toEqual([
    { class: "Shop", name: "shop-2", errors: 1, error: expect.stringContaining("no such article") as string, seq: last!.seq }, // prettier-ignore
  ]);
  expect(await rows("SELECT count(*) AS n FROM Shop WHERE size > 4096")).toEqual([{ n: 21 }]);
  const ends = (await ports.changes.streams()).map(({ end }) => end);
  await rows("SELECT * FROM agents");
  expect((await ports.changes.streams()).map(({ end }) => end)).toEqual(ends);
});

test("an invalid query is refused with the reason", async () => {
  const refused = async (sql: string, ...args: string[]) => {
    const { code, out, err } = await agents("query", sql, ...args);
    expect(out).toBe("");
    return `${code} ${err.trim()}`;
  };
  expect(await refused("SELECT * FROM Shopp")).toMatch(/^3 There are no agents of class Shopp. Did you mean Shop\?/); // prettier-ignore
  expect(await refused("SELECT * FROM Elsewhere")).toContain('"agents query" lists the classes');
  expect(await refused("SELECT colour FROM Shop")).toMatch(
    /^1 SQLite: no such column: colour at offset 7/,
  );
  expect(await refused("SELEKT 1")).toMatch(/^1 SQLite: near "SELEKT": syntax error/);
  expect(await refused("DELETE FROM Shop")).toMatch(/^1 SQLite: The statement writes/);
  expect(await refused("ATTACH 'x' AS y")).toMatch(/^1 SQLite: ATTACH/);
  expect(await refused("PRAGMA journal_mode = WAL")).toMatch(/^1 SQLite: PRAGMA/);
  const endless = "WITH RECURSIVE r(n) AS (VALUES (1) UNION ALL SELECT n + 1 FROM r) SELECT max(n) FROM r"; // prettier-ignore
  expect(await refused(endless, "--seconds", "1")).toMatch(
    /^1 The query was stopped after 1 seconds/,
  );
  expect(await refused("SELECT 1", "--seconds", "0")).toMatch(/^2 /);
  expect(await rows("SELECT count(*) AS n FROM Shop")).toEqual([{ n: 21 }]);
});

/** What would load code, reach a file, write, or be read as something else. */
const REFUSED: ReadonlyArray<readonly [sql: string, why: RegExp]> = [
  ["SELECT load_extension('/tmp/x.so')", /no such function: load_extension/],
  ["SELECT writefile('x', 'y')", /no such function: writefile/],
  ["SELECT fts3_tokenizer('simple', x'00')", /no such function|fts3tokenize disabled/],
  ["ATTACH '/etc/passwd' AS y", /ATTACH/],
  ["VACUUM INTO '/tmp/stolen'", /ATTACH|writes/],
  ["PRAGMA writable_schema = ON", /PRAGMA writable_schema is not allowed/],
  ["PRAGMA hard_heap_limit = 0", /PRAGMA hard_heap_limit is not allowed/],
  ["SELECT * FROM pragma_journal_mode('WAL')", /unknown database/],
  ["CREATE TEMP TABLE t AS SELECT 1", /writes/],
  ["WITH x AS (SELECT 1) DELETE FROM Shop", /writes/],
  ["BEGIN", /Transactions/],
  ["SELECT 1; DELETE FROM Shop", /writes/],
  ["SELECT 1; SELECT 2", /one statement/],
  ["SELECT 1\0; DELETE FROM Shop", /character NUL/],
  [`SELECT ${"a.*,".repeat(210)} 1 FROM Shop a`, /too many columns/],
];
const numbers = "WITH RECURSIVE r(n) AS (VALUES (1) UNION ALL SELECT n + 1 FROM r WHERE n < 10000)";
/** Ten gigabytes: in one value, in the rows of an answer, and only inside of SQLite. */
const HUGE: ReadonlyArray<readonly [sql: string, why: RegExp]> = [
  ["SELECT replace(hex(zeroblob(100000)), '00', printf('%.*c', 100000, 'x'))", /too big|memory/],
  [`${numbers} SELECT printf('%.*c', 1000000, 'x') FROM r`, /larger than 16 MiB/],
  [`${numbers} SELECT max(length(x)) FROM (SELECT zeroblob(1000000) AS x FROM r ORDER BY -n LIMIT 9999)`, /memory|ran for/],
  // Control characters are six times as long in JSON.
  ["SELECT replace(hex(zeroblob(2500000)), '0', char(1)) AS x", /larger than 16 MiB/],
]; // prettier-ignore

/** SQLite's heap may have 256 MiB, in parts; an answer of 16 MiB is there several times. */
const GROWN_MIB_MAX = 800;
/** The most memory that a process has had. */
const peakMiB = (pid: number): number =>
  Number(/VmHWM:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, "utf8"))![1]) / 1_024;

test("no statement can leave its view, or exhaust its process's memory", async () => {
  await rows("SELECT 1");
  const before = peakMiB(host.pid);
  const wrong: unknown[] = [];
  const note = (sql: string, isRight: boolean, said: unknown): void => {
    if (!isRight) wrong.push([sql.slice(0, 99), said]);
  };
  for (const [sql, why] of [...REFUSED, ...HUGE]) {
    const { status, text } = await asked(sql);
    note(sql, status === 400 && why.test(text), text);
  }
  // The command line takes no NUL. The last runs in this process.
  const asCommand = REFUSED.filter(([sql]) => !sql.includes("\0"));
  for (const [sql, why, ...args] of [...asCommand, [...HUGE[2]!, "--local"]] as const) {
    const { code, err } = await agents("query", sql, ...args);
    note(sql, code === 1 && why.test(err), err);
  }
  expect(wrong).toEqual([]);
  expect(peakMiB(host.pid) - before).toBeLessThan(GROWN_MIB_MAX);
  expect(await rows("SELECT count(*) AS n FROM Shop")).toEqual([{ n: 21 }]);
  expect(await call("Shop", "shop-3", "sell", 0)).toBe(53);
});

test("hosts accept only queries from a reader", async () => {
  const bounds = { deadlineMs: 10_000, repeatable: false };
  const rpc = { kind: "rpc", method: "sell", args: [1] } as const;
  for (const act of [rpc, { kind: "erase" }, { kind: "end" }] as const) {
    const { reply } = await ports.calls.call(QUESTIONS, act, bounds);
    expect(reply).toMatchObject({ kind: "error", message: "Internal Server Error" });
  }
  expect(await ports.journal.last(QUESTIONS)).toBeUndefined();
});

test("concurrent queries wait for each other", async () => {
  const sql = "SELECT count(*) AS n FROM Shop";
  const all = await Promise.all([rows(sql), rows(sql), local(sql), rows(sql, "--rebuild"), local(sql)]); // prettier-ignore
  expect(all).toEqual(all.map(() => [{ n: 21 }]));
  expect(existsSync(join(data, "view", "lock"))).toBe(false);
});

test("a view with a damaged file is rebuilt", async () => {
  const folderOf = join(data, "view");
  const [name] = readdirSync(folderOf, { recursive: true, encoding: "utf8" }).filter((path) =>
    path.endsWith(".image"),
  );
  const path = join(folderOf, name!);
  const bytes = readFileSync(path);
  // The pages with the agents' rows: those that a view reads when it is opened are whole.
  for (let at = 0; at + PAGE_BYTES < bytes.length; at += PAGE_BYTES)
    if (bytes.subarray(at, at + PAGE_BYTES).includes('"sold"')) bytes[at + 100]! ^= 1;
  writeFileSync(path, bytes);
  expect(await local("SELECT count(*) AS n, max(state) IS NULL AS none FROM Shop")).toEqual([
    { n: 21, none: 0 },
  ]);
});

test("after a kill in the middle of its work, the next query continues, and counts nothing twice", async () => {
  const wanted = "SELECT name, seq, time, errors, state FROM agents ORDER BY class, name";
  for (const afterMs of [0, 5, 10]) {
    await failJobs("shop-2", ["again", "and again", "and again"]);
    const child = spawn(process.execPath, [MAIN, "query", wanted, "--local", "--data", data], {
      env: { PATH: process.env["PATH"] ?? "", NATS_URL: installation.nats.url },
      stdio: "ignore",
    });
    const ended = new Promise((resolve) => child.once("exit", resolve));
    const lock = join(data, "view", "lock");
    await pollUntil("it works on the view, or has ended", () => existsSync(lock) || child.exitCode !== null, { intervalMs: 1 }); // prettier-ignore
    await new Promise((resolve) => setTimeout(resolve, afterMs));
    child.kill("SIGKILL");
    await ended;
    const found = await local(wanted);
    expect(found).toEqual(await rows(wanted, "--rebuild"));
  }
  const errors = "SELECT errors FROM Shop WHERE name = 'shop-2'";
  expect(await local(errors)).toEqual([{ errors: 10 }]);
  expect(await rows(errors)).toEqual([{ errors: 10 }]);
});

test("history trimmed meanwhile is read from its base, including schedules", async () => {
  await call("Shop", "shop-1", "sell", 1);
  const id = agentId("Shop", "shop-1");
  const time = { nowMs: () => machineTime.nowMs() + AHEAD_MS };
  const seqs: Sequence[] = [];
  for await (const { seq } of ports.journal.read(id, { fromSeq: 1 as Sequence })) seqs.push(seq);
  expect(seqs.length).toBeGreaterThan(2);
  const size = { first: seqs[0]!, events: seqs.length };
  const trimmed = await trimAgent(id, { ...ports, time }, { limits: { events: 1 }, ...size });
  expect(trimmed).toMatchObject({ _tag: "Trimmed" });
  const sql = "SELECT state->>'sold' AS sold, schedules->0->>'callback' AS what FROM Shop WHERE name = 'shop-1'"; // prettier-ignore
  expect(await rows(sql)).toEqual([{ sold: 2, what: "restock" }]);
  expect(await local(sql)).toEqual([{ sold: 2, what: "restock" }]);
  expect(await rows(sql, "--rebuild")).toEqual([{ sold: 2, what: "restock" }]);
});

test("an erased agent is gone; its next life, and a restored agent, are listed", async () => {
  const sold = (name: string) => rows(`SELECT state->>'sold' AS sold FROM Shop WHERE name = '${name}'`); // prettier-ignore
  expect(await agents("erase", "shop", "shop-5", "--yes")).toMatchObject({ code: 0 });
  expect(await sold("shop-5")).toEqual([]);
  await call("Shop", "shop-5", "sell", 3);
  expect(await sold("shop-5")).toEqual([{ sold: 3 }]);
  await call("Shop", "shop-6", "sell", 100);
  const { seq } = (await ports.journal.last(agentId("Shop", "shop-6")))!;
  await call("Shop", "shop-6", "sell", 100);
  expect(await sold("shop-6")).toEqual([{ sold: 206 }]);
  const back = await agents("restore", "shop", "shop-6", "--at", String(seq), "--yes");
  expect(back).toMatchObject({ code: 0 });
  expect(await sold("shop-6")).toEqual([{ sold: 106 }]);
  expect(await agents("fork", "shop", "shop-1", "copy of 1")).toMatchObject({ code: 0 });
  expect(await rows("SELECT schedules->0->>'callback' AS what FROM Shop WHERE name = 'copy of 1'")).toEqual([{ what: "restock" }]); // prettier-ignore
});

test("in code, each request sees what the previous one wrote, and wrong SQL says why", async () => {
  const total = async () => (JSON.parse((await asked("SELECT sum(state->>'sold') AS n FROM Shop")).text) as [{ n: number }])[0].n; // prettier-ignore
  const before = await total();
  for (let n = 1; n <= 10; n++) {
    await ask(`/sell?shop=shop-${n}&count=1`);
    expect(await total()).toBe(before + n);
  }
  expect(await asked("SELECT * FROM Shopp")).toEqual({
    status: 400,
    text: "QueryRefused: There are no agents of class Shopp. Did you mean Shop?",
  });
  expect((await asked("DELETE FROM Shop")).text).toMatch(/^QueryRefused: SQLite: The statement writes/); // prettier-ignore
  // Past the broker's payload limit.
  const { text } = await asked("SELECT printf('%.*c', 3000000, 'x') AS x");
  expect(JSON.parse(text)).toEqual([{ x: "x".repeat(3_000_000) }]);
});

test("an erased agent is removed from the host's view, bytes included, before the erasure ends", async () => {
  const first = "a shop that is erased first";
  const named = "a shop whose name is nowhere else";
  for (const name of [first, named]) {
    await ask(`/sell?shop=${name}&count=1`);
    expect(await asked(`SELECT name FROM Shop WHERE name = '${name}'`)).toMatchObject({
      text: JSON.stringify([{ name }]),
    });
  }
  const views = join(installation.pathOf("host"), "hosts", "0", "view");
  for (const [name, left] of [
    [first, named],
    [named, "shop-1"],
  ] as const) {
    const erased = await agents("erase", "shop", name, "--yes");
    expect(erased).toMatchObject({ code: 0 });
    expect(erased.err).not.toContain("did not answer");
    expect(bytesIn(views)).not.toContain(name);
    expect(bytesIn(views)).toContain(left);
  }
});

test("as of an earlier time, the agents of that time are listed", async () => {
  const sold = ["SELECT state->>'sold' AS sold FROM Shop WHERE name = 'past'"] as const;
  await call("Shop", "past", "sell", 1);
  const id = agentId("Shop", "past");
  const { time } = decodeEvent((await ports.journal.last(id))!.data).head;
  await pollUntil("a later millisecond", () => machineTime.nowMs() > time);
  await call("Shop", "past", "sell", 10);
  expect(await rows(...sold)).toEqual([{ sold: 11 }]);
  const at = ["--at", new Date(time).toISOString()];
  // An agent that was trimmed above has no history of then: its beginning is named.
  const trimmed = await agents("query", ...sold, ...at.with(1, "2026-01-01T00:00:00Z"));
  expect(trimmed.code).toBe(3);
  expect(trimmed.err).toMatch(
    /^There is no answer as of 2026-01-01T00:00:00.000Z, because the history of \d+ agents? is trimmed \(Shop\/.*\)\. The earliest possible time is \S+Z\. If the events were archived, specify the archive \(--archive\)\.$/m,
  );
  expect(await rows(...sold, ...at)).toEqual([{ sold: 1 }]);
  expect(await rows("SELECT count(*) AS n FROM agents", "--at", "0s")).toEqual(
    await rows("SELECT count(*) AS n FROM agents"),
  );
  await call("Latecomer", "first", "come");
  const late = await agents("query", "SELECT * FROM Latecomer", ...at);
  expect([late.code, late.err]).toEqual([3, expect.stringContaining(`There are no agents of class Latecomer. "agents query" lists the classes. The answer is as of ${at[1]}: a class whose first agent is younger had none.`)]); // prettier-ignore
  expect(await rows("SELECT name FROM Latecomer")).toEqual([{ name: "first" }]);
  for (const other of ["--rebuild", "--local"])
    expect((await agents("query", ...sold, ...at, other)).err).toContain("leave out --local, --rebuild"); // prettier-ignore
  expect((await agents("query", ...sold, "--at", "42")).err).toContain(
    "or how long ago (15m, 2h, 7d)",
  );
});

test("a query waits for the requested event", async () => {
  await call("Shop", "waited", "sell", 1);
  const id = agentId("Shop", "waited");
  const { seq } = (await ports.journal.last(id))!;
  const sold = "SELECT state->>'sold' AS sold FROM Shop WHERE name = 'waited'";
  expect(await rows(sold, "--after", `shop/waited@${seq}`)).toEqual([{ sold: 1 }]);
  const group = ports.changes.groupOf(id);
  const { end } = (await ports.changes.streams())[group]!;
  const waiting = [rows, local].map((from) => from(sold, "--after", `Shop/waited@${end + 1}`));
  await call("Shop", "waited", "sell", 1);
  expect(await Promise.all(waiting)).toEqual([[{ sold: 2 }], [{ sold: 2 }]]);
  expect((await agents("query", sold, "--after", "waited")).err).toContain("as in RepoAgent/acme~site@42"); // prettier-ignore
});

test("a restored installation has the same rows, from its own view", async () => {
  const saved = join(folder.path, "saved");
  const wanted = "SELECT class, name, state, schedules FROM agents ORDER BY class, name";
  const there = ["--namespace", "there"];
  expect(await agents("backup", saved)).toMatchObject({ code: 0 });
  expect(await agents("provision", "--shards", "2", ...there)).toMatchObject({ code: 0 });
  expect(await agents("restore", saved, ...there)).toMatchObject({ code: 0 });
  expect(await rows(wanted, ...there)).toEqual(await rows(wanted));
});
