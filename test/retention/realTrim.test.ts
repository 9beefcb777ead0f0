/** Trimmed journals on a real nats-server with real hosts: agents and commands go on. */
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { afterAll, beforeAll, expect, test } from "vitest";
import { Retention } from "../../services/retention/Retention.ts";
import { retentionMetrics } from "../../core/retention/RetentionMetrics.ts";
import { agentId } from "../../schemas/Address.ts";
import { encodeDeadLetter } from "../../schemas/DeadLetter.ts";
import { PrometheusMetrics } from "../../services/admin/PrometheusMetrics.ts";
import { openArchive } from "../../services/archive/openArchive.ts";
import { machineTime } from "../../services/node/MachineTime.ts";
import type { AgentsProcess } from "../kit/AgentsProcess.ts";
import { Installation } from "../kit/Installation.ts";
import { pollUntil } from "../kit/poll.ts";
import { collectingLog } from "../kit/system.ts";
import { LEASE_TTL_MS_DEFAULT as leaseTtlMs } from "../../services/nats/setup/provision.ts";

const MODULE = fileURLToPath(new URL("../cli/keeperModule.ts", import.meta.url));
/** Larger than a message of the broker below: the event lies in the blob store. */
const LARGE_BYTES = 600_000;
/** More than what always stays. */
const AHEAD_MS = 3_600_000;
const KEPT = 5;
const ID = agentId("Keeper", "old");

let installation: Installation;
let ports: Installation["ports"];
let call: ReturnType<Installation["caller"]>;
let host: AgentsProcess;
let before: unknown;
let lastTrimmed: number;

let archiveUrl: string;
const agents = (...args: string[]) => installation.agents(...args);

beforeAll(async () => {
  installation = await Installation.start({
    shards: 4, leaseTtlMs, module: MODULE, gateway: false, maxPayload: 256 * 1024,
  }); // prettier-ignore
  ({ ports } = installation);
  call = installation.caller("Keeper");
  mkdirSync(installation.pathOf("archive"));
  archiveUrl = pathToFileURL(installation.pathOf("archive")).href;
  host = await installation.startHost("first");
  await host.ready();
  await call("old", "plan", 3_600, "later");
  await call("old", "noteLong", LARGE_BYTES);
  for (let n = 0; n < 20; n++) await call("old", "note", `note ${n}`);
  before = await call("old", "all");
});
afterAll(() => installation?.kill());

test("a walk trims what exceeds its class's limits, and nothing else", async () => {
  await call("short", "note", "only");
  const metrics = new PrometheusMetrics();
  let lastWalkSeconds = (): number => 0;
  const retention = new Retention({
    ...ports,
    id: "test",
    time: { ...machineTime, nowMs: () => machineTime.nowMs() + AHEAD_MS },
    log: collectingLog(),
    metrics: { ...retentionMetrics(metrics), lastWalk: (read) => void (lastWalkSeconds = read) },
    archive: openArchive(archiveUrl, { namespace: "agents", time: machineTime }),
    classes: () => [{ className: "Keeper", limits: { events: KEPT } }],
  });
  lastTrimmed = (await ports.journal.last(ID))!.seq - KEPT;
  retention.start();
  const counts = async () => {
    const found: Record<string, number> = {};
    for await (const { id, events } of ports.journal.list()) found[id.name] = events;
    return found;
  };
  await pollUntil("the trim", async () => (await counts())["old"] === KEPT);
  await pollUntil("the end of the walk", () => lastWalkSeconds() > 0);
  await retention.stop();
  expect(await counts()).toMatchObject({ old: KEPT, short: 1 });
  expect(retention.state).toMatchObject({ failed: 0, reason: undefined });
  expect(await metrics.render()).toMatch(/agents_history_trimmed_events_total [1-9]/);
});

test("the agent continues on its host and on another", async () => {
  expect(await call("old", "all")).toEqual(before);
  await call("old", "note", "after the trim");
  const now = await call<unknown>("old", "all");
  await host.kill();
  host = await installation.startHost("second");
  expect(await call("old", "all")).toEqual(now);
  before = now;
});

test("history and state read what remains, and say where it begins", async () => {
  const history = await agents("history", "keeper", "old");
  expect(history.code).toBe(0);
  expect(history.err).toMatch(/^The history up to event \d+ of \S+ was trimmed\./m);
  expect(history.out).toContain("after the trim");
  const last = (await ports.journal.last(ID))!.seq;
  const first = (await ports.journal.first(ID))!.seq;
  const now = await agents("state", "keeper", "old");
  expect(JSON.parse(now.out)).toMatchObject({ notes: 22, last: "after the trim" });
  expect(await agents("state", "keeper", "old", "--at", String(last))).toMatchObject({ code: 0 });
  const then = await agents("sql", "keeper", "old", "SELECT count(*) AS n FROM notes", "--at", String(first), "--json"); // prettier-ignore
  expect(then.code).toBe(0);
  const gone = await agents("state", "keeper", "old", "--at", String(lastTrimmed - 5));
  expect(gone.code).toBe(3);
  expect(gone.err).toContain(`starts with event ${first} of`);
});

test("a fork, an export and a backup carry the agent whole", async () => {
  expect(await agents("fork", "keeper", "old", "forked")).toMatchObject({ code: 0 });
  expect(await call("forked", "all")).toEqual(before);
  const tooOld = await agents("fork", "keeper", "old", "never", "--at", String(lastTrimmed - 5));
  expect(tooOld).toMatchObject({ code: 3 });
  expect(tooOld.err).toContain("starts with event");

  const exported = await agents("export", "keeper", "old");
  const file = installation.pathOf("old.jsonl");
  writeFileSync(file, exported.out);
  const imported = await agents("import", file, "--as", "imported");
  expect(imported).toMatchObject({ code: 0 });
  expect(imported.out).toContain("1 timer armed");
  expect(await call("imported", "all")).toEqual(before);

  const saved = installation.pathOf("saved");
  expect(await agents("backup", saved)).toMatchObject({ code: 0 });
  const there = ["--namespace", "there"];
  expect(await agents("provision", "--shards", "2", ...there)).toMatchObject({ code: 0 });
  const restored = await agents("restore", saved, "--json", ...there);
  expect(restored.code).toBe(0);
  expect(JSON.parse(restored.out)).toMatchObject({ damaged: 0, timers: 3 });
  const state = await agents("state", "keeper", "old", ...there);
  expect(JSON.parse(state.out)).toMatchObject({ notes: 22 });
});

test("with the archive every command reads journal and archive as one", async () => {
  const archive = ["--archive", archiveUrl];
  const history = await agents("history", "keeper", "old", "--json", ...archive);
  expect(history).toMatchObject({ code: 0, err: "" });
  const lines = history.out.trim().split("\n");
  const told = lines.map((line) => JSON.parse(line) as { seq: number; state?: { notes: number } });
  expect(told.flatMap(({ state }) => state?.notes ?? [])).toEqual(
    Array.from({ length: 23 }, (_, n) => n).slice(told[0]!.state === undefined ? 1 : 0),
  );
  const then = told.find(({ state }) => state?.notes === 3)!.seq;
  const at = ["--at", String(then), ...archive];
  const state = await agents("state", "keeper", "old", ...at);
  expect(JSON.parse(state.out)).toMatchObject({ notes: 3, last: "note 1" });
  const sql = await agents("sql", "keeper", "old", "SELECT length(text) AS n FROM notes", "--json", ...at); // prettier-ignore
  expect(JSON.parse(sql.out)).toEqual([{ n: LARGE_BYTES }, { n: 6 }, { n: 6 }]);
  expect(await agents("fork", "keeper", "old", "young", ...at)).toMatchObject({ code: 0 });
  const young = await call<{ state: { notes: number } }>("young", "all");
  expect(young.state.notes).toBe(3);
  const exported = await agents("export", "keeper", "old", ...archive);
  expect(exported.out.trim().split("\n")).toHaveLength(
    new Set(told.map(({ seq }) => seq)).size + 2,
  );
  const follow = ["export", "keeper", "old", "--follow", "--limit", String(told.length)];
  const changes = (await agents(...follow, ...archive)).out.trim().split("\n");
  const seqOf = (line: string) => (JSON.parse(line) as { readonly seq: number }).seq;
  expect(changes.map(seqOf)).toEqual(told.map(({ seq }) => seq));
  const kept = await agents(...follow.slice(0, -1), "1");
  expect(kept.err).toContain("specify the archive");
  const wrong = await agents("state", "keeper", "old", "--archive", "/no/url");
  expect(wrong).toMatchObject({ code: 2 });
  expect(wrong.err).toContain("use the URL of a folder or a bucket");
});

test("an agent is restored to a trimmed point, and back again", async () => {
  const now = await call<unknown>("old", "all");
  const archive = ["--archive", archiveUrl];
  const refused = await agents("restore", "keeper", "old", "--at", "4", "--yes");
  expect(refused).toMatchObject({ code: 3 });
  expect(await agents("restore", "keeper", "old", "--at", "4", "--yes", ...archive)).toMatchObject({
    code: 0,
  });
  const then = await agents("state", "keeper", "old", "--at", "4", ...archive);
  const { state } = await call<{ readonly state: unknown }>("old", "all");
  expect(state).toEqual(JSON.parse(then.out));
  const last = (await ports.journal.last(ID))!.seq;
  const history = (await agents("history", "keeper", "old", "--json", "--limit", "9")).out;
  const restored = history
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line) as { readonly seq: number; readonly restored?: object })
    .findLast((line) => line.restored !== undefined)!;
  expect(restored.seq).toBeLessThanOrEqual(last);
  const undo = ["--at", String(restored.seq - 1), "--yes"];
  expect(await agents("restore", "keeper", "old", ...undo)).toMatchObject({ code: 0 });
  expect(await call("old", "all")).toEqual(now);
});

test("an erased agent leaves no base, and nothing in the archive", async () => {
  const root = installation.pathOf("archive");
  const files = readdirSync(root, { recursive: true, encoding: "utf8" });
  const mentions = files.filter(
    (file) => file.endsWith(".json") && readFileSync(join(root, file)).includes('"old"'),
  );
  expect(mentions.length).toBeGreaterThan(0);
  const base = (await ports.snapshots.bases(ID))!.copies[0]!;
  const refused = await agents("erase", "keeper", "old", "--yes");
  expect(refused).toMatchObject({ code: 1 });
  expect(refused.err).toMatch(/is in an archive .* Nothing was removed.*--archive/);
  const parts = files.filter((file) => file.endsWith(".gz")).map((file) => join(root, file));
  const whole = parts.map((part) => readFileSync(part));
  const receipt = installation.pathOf("receipt.json");
  const saved = installation.pathOf("saved");
  const given = ["--yes", "--archive", archiveUrl, "--receipt", receipt, "--backups"];
  const unreadable = await agents(
    "erase",
    "keeper",
    "old",
    ...given,
    installation.pathOf("archive"),
  );
  expect(unreadable).toMatchObject({ code: 1 });
  expect(unreadable.err).toContain("is not a backup and contains none");
  const nowhere = ["--receipt", installation.pathOf("missing/receipt.json")];
  const unwritable = await agents("erase", "keeper", "old", "--yes", "--archive", archiveUrl, ...nowhere); // prettier-ignore
  expect(unwritable).toMatchObject({ code: 1 });
  expect(unwritable.err).toMatch(/receipt can't be written: ENOENT.*Nothing was removed/);
  const erased = await agents("erase", "keeper", "old", ...given, saved);
  expect(erased).toMatchObject({ code: 0 });
  expect(erased.err).toMatch(/The backup \S+\/saved of \S+ contains [1-9]\d* lines of it/);
  expect(erased.out).toMatch(/Parts of it that were removed from the archive: \d+/);
  expect(await ports.snapshots.bases(ID)).toBeUndefined();
  for (const file of mentions) expect(readFileSync(join(root, file)).includes('"old"')).toBe(false);

  const told = JSON.parse(readFileSync(receipt, "utf8")) as Receipt;
  expect(told).toMatchObject({ namespace: "agents", archive: archiveUrl, backups: [{ folder: saved }] }); // prettier-ignore
  expect(told.agents).toMatchObject([{ class: "Keeper", name: "old", silent: [] }]);
  expect(told.agents[0]!.archived.length).toBeGreaterThan(0);
  const verify = () => agents("erase", "--verify", receipt, "--json");
  const held = await verify();
  expect(held).toMatchObject({ code: 1 });
  expect(JSON.parse(held.out)).toMatchObject({ erased: false, found: [expect.stringMatching(/^the backup \S+saved of \S+ has/)] }); // prettier-ignore
  rmSync(saved, { recursive: true });
  const removed = await verify();
  expect(removed).toMatchObject({ code: 0 });
  expect(JSON.parse(removed.out)).toMatchObject({ notes: [expect.stringMatching(/^the backup \S+saved is not there, or can't be read/)] }); // prettier-ignore
  // As by a host that was frozen with the agent.
  await ports.snapshots.put(ID, base);
  const letter = { agent: [ID.class, ID.name], seq: 1, reason: "no", host: "h", time: 1 } as const;
  await ports.deadLetters.put(ID, encodeDeadLetter(letter, new Uint8Array(1)));
  const late = await verify();
  expect(late).toMatchObject({ code: 1 });
  expect(JSON.parse(late.out)).toMatchObject({ found: [expect.stringMatching(/a snapshot from before the erasure/), expect.stringMatching(/a dead letter from before the erasure/)] }); // prettier-ignore
  expect(await agents("erase", "keeper", "old", "--yes", "--archive", archiveUrl)).toMatchObject({ code: 0 }); // prettier-ignore
  // What it stores in a later life is its own.
  await call("old", "note", "anew");
  expect(await verify()).toMatchObject({ code: 0 });
  // As after a restore of the archive's disk.
  for (const [n, part] of parts.entries()) writeFileSync(part, whole[n]!);
  const back = await verify();
  expect(back).toMatchObject({ code: 1 });
  expect(back.out).toMatch(/its part at \d+ of \S+ is in the archive again/);
  const again = await agents("erase", "keeper", "old", ...given, saved);
  expect(again).toMatchObject({ code: 1 });
  expect(again.err).toMatch(/receipt\.json exists already\. Nothing was removed/);
  writeFileSync(receipt, JSON.stringify({ ...told, away: ["changed"] }));
  const changed = await verify();
  expect(changed).toMatchObject({ code: 1 });
  expect(changed.err).toContain("not as it was written");
});

interface Receipt {
  readonly agents: ReadonlyArray<{ readonly archived: ReadonlyArray<object> }>;
}

test("agents retention prints what it keeps, becomes the leader, and refuses meaningless limits", async () => {
  const wrong = await agents("retention", MODULE, "--history", "days=0");
  expect(wrong).toMatchObject({ code: 2 });
  expect(wrong.err).toContain("has days 0: use a number above 0");
  const unknown = await agents("retention", MODULE, "--history", "weeks=3");
  expect(unknown.err).toContain('has "weeks": the limits are days, events, bytes');
  const process = await installation.startRetention({ args: ["--history", "days=30"] });
  try {
    await process.ready();
    const kept = process.lines.find(({ message }) => message === "history is kept");
    expect(kept).toMatchObject({ Keeper: { days: 30 } });
    await pollUntil("the lease", async () => (await ports.leases.list("retention")).length === 1);
  } finally {
    await process.kill();
  }
});
