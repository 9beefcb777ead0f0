/**
 * `agents rerun`, as people run it: an agent's past on the code that it ran on, and on the next
 * release.
 */
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { InboxShape } from "../../core/inbox/Inbox.ts";
import { agentId } from "../../schemas/Address.ts";
import { encodeEnvelope } from "../../schemas/InboxEnvelope.ts";
import { openReader } from "../../services/wiring/joinReader.ts";
import type { ReadPorts } from "../../services/wiring/Joins.ts";
import { AgentsProcess } from "../kit/AgentsProcess.ts";
import { startNats, type TestNats } from "../kit/natsServer.ts";
import { pollUntil } from "../kit/poll.ts";
import { runAgents } from "../kit/runAgents.ts";
import { tempFolder } from "../kit/tempFolder.ts";

const pathOf = (name: string): string => fileURLToPath(new URL(name, import.meta.url));
const NOW = fileURLToPath(new URL("./rerun/now.ts", import.meta.url));
const NEXT = fileURLToPath(new URL("./rerun/next.ts", import.meta.url));
const NONE = fileURLToPath(new URL("./rerun/none.ts", import.meta.url));
const REFS = [
  "plain",
  "twice",
  "planned",
  "broken",
  "refused",
  "asked",
  "sent",
  "notified",
  "flaky",
  "plain again",
];
const ID = agentId("RepoAgent", "hello");

const folder = tempFolder("rerun");
let nats: TestNats;
let ports: ReadPorts;
let host: AgentsProcess;

interface Line {
  readonly seq: number;
  readonly inputs: string[];
  readonly outcome: string;
  readonly why?: string;
  readonly differences?: string[];
  readonly sends?: unknown[];
}

const agents = (args: ReadonlyArray<string>, env: Readonly<Record<string, string>> = {}) =>
  runAgents(args, { NATS_URL: nats.url, ...env });
const linesOf = (out: string): Line[] =>
  out.trimEnd().split("\n").map((line) => JSON.parse(line) as Line); // prettier-ignore
const inboxDepth = (): Promise<number> => (ports.inbox as InboxShape).depth();

async function webhook(n: number, body: string | Uint8Array): Promise<void> {
  const head = {
    key: `hook:${n}`,
    kind: "webhook" as const,
    time: Date.now(),
    provider: "github",
    type: "push",
    method: "POST",
    url: "http://hooks.test/webhooks/github",
    headers: { "content-type": "application/json" },
  };
  const bytes = typeof body === "string" ? new TextEncoder().encode(body) : body;
  const signal = AbortSignal.timeout(10_000);
  await ports.inbox.publish(ID, encodeEnvelope(head, bytes), { signal });
  await pollUntil("it is done", async () => (await inboxDepth()) === 0);
}

beforeAll(async () => {
  nats = await startNats();
  expect(await agents(["provision", "--shards", "2"])).toMatchObject({ code: 0 });
  ports = await openReader({ natsUrl: nats.url, namespace: "agents" });
  host = await AgentsProcess.start({
    args: ["host", NOW, "--nats", nats.url, "--data", folder.path],
  });
  await host.ready();
  for (const [n, ref] of REFS.entries()) await webhook(n, JSON.stringify({ ref }));
}, 60_000);
afterAll(async () => {
  await host?.kill();
  await ports?.close();
  await nats?.stop();
  folder.remove();
}, 30_000);

test("on the code that it ran on nothing goes another way, and nothing is changed", async () => {
  const before = (await ports.journal.last(ID))!.seq;
  const again = await agents(["rerun", "repo-agent", "hello", NOW]);
  expect(again).toMatchObject({ code: 0, err: "" });
  const lines = again.out.trimEnd().split("\n");
  const sends = lines.filter((line) => line.startsWith(" "));
  expect(sends).toEqual(["    would send: POST https://hooks.example.com/all"]);
  expect(lines).toHaveLength(REFS.length + sends.length + 1);
  expect(lines[0]).toMatch(/^\d+ {2}github push hook:0 {2}same$/);
  expect(lines.at(-1)).toBe(
    "RepoAgent/hello: 10 the same, 0 another way, 0 failed, 0 not run again.",
  );
  expect((await ports.journal.last(ID))!.seq).toBe(before);
}, 60_000);

test("on other code each webhook tells by itself what comes out otherwise", async () => {
  const again = await agents(["rerun", "RepoAgent", "hello", NEXT, "--json"]);
  expect(again.code).toBe(1);
  expect(again.err).toContain("3 the same, 5 another way, 2 failed, 0 not run again");
  const told = new Map(linesOf(again.out).map((line, n) => [REFS[n], line]));
  expect(told.get("plain")).toMatchObject({ outcome: "same" });
  expect(told.get("plain again")).toMatchObject({ outcome: "same" });
  expect(told.get("twice")?.differences).toEqual(['pushes[3]: unset -> {"id":3,"ref":"twice","at":0}']); // prettier-ignore
  expect(told.get("planned")?.differences).toEqual([
    "state.count: 3 -> 2",
    'state.last: "planned" -> "twice"',
    expect.stringMatching(/^pushes\[\d+\]: \{"id":\d+,"ref":"planned".* -> unset$/),
    expect.stringMatching(/^schedules: without .*"delayInSeconds":3600/),
    expect.stringMatching(/^schedules: with .*"delayInSeconds":60/),
  ]);
  expect(told.get("broken")?.differences).toEqual([
    "no error; it was Error: this ref can't be read",
    'state.last: "planned" -> "unreadable"',
  ]);
  expect(told.get("refused")).toMatchObject({
    outcome: "fails",
    why: "Error: refused from now on",
  });
  expect(told.get("asked")).toMatchObject({
    outcome: "fails",
    // Of each attempt.
    sends: Array(2).fill({ kind: "fetch", method: "GET", url: "https://api.example.com/refs" }),
  });
  expect(told.get("notified")).toMatchObject({ outcome: "same" });
  expect(told.get("sent")).toMatchObject({
    outcome: "differs",
    differences: [expect.stringMatching(/^webhooks sent: with .*hooks\.example\.com/)],
    sends: [{ kind: "webhook", method: "POST", url: "https://hooks.example.com/refs" }],
  });
}, 60_000);

test("takes settings from the environment, and a part of the past", async () => {
  const options = ["--last", "1", "--json"];
  const again = await agents(["rerun", "RepoAgent", "hello", NOW, ...options], { STEP: "10" });
  expect(again.code).toBe(1);
  expect(linesOf(again.out)).toMatchObject([
    { inputs: ["github push hook:9"], differences: ["state.count: 10 -> 19"] },
  ]);
  const all = linesOf((await agents(["rerun", "RepoAgent", "hello", NOW, "--json"])).out);
  const [from, to] = [all[2]!.seq, all[4]!.seq];
  const part = await agents(["rerun", "RepoAgent", "hello", NOW, "--from", `${from}`, "--to", `${to}`, "--json"]); // prettier-ignore
  expect(linesOf(part.out).map(({ seq }) => seq)).toEqual([2, 3, 4].map((n) => all[n]!.seq));
}, 60_000);

test("--failed runs only what failed or was tried again, each from before its first attempt", async () => {
  const again = await agents(["rerun", "RepoAgent", "hello", NOW, "--failed", "--json"]);
  expect(again).toMatchObject({ code: 0, err: "" });
  const lines = linesOf(again.out);
  expect(lines.map(({ inputs, outcome }) => [...inputs, outcome])).toEqual([
    ["github push hook:3", "same"],
    ["github push hook:8", "same"],
  ]);
  const fixed = await agents(["rerun", "RepoAgent", "hello", NEXT, "--failed", "--json"]);
  expect(linesOf(fixed.out).map(({ outcome }) => outcome)).toEqual(["differs", "differs"]);
  expect(linesOf(fixed.out)[1]!.differences).toContain("state.count: 9 -> 8");
}, 60_000);

test("says what is wrong", async () => {
  const cases: ReadonlyArray<readonly [string[], number, string]> = [
    [["RepoAgent", "nobody", NOW], 3, "nobody"],
    [["RepoAgent", "hello", NONE], 1, "exports no agent class RepoAgent; it has OtherAgent"],
    [["RepoAgent", "hello", pathOf("./rerun/gone.ts")], 1, "no such file"],
    [["RepoAgent", "hello", NOW, "--last", "0"], 2, "--last"],
  ];
  for (const [args, code, why] of cases) {
    const refused = await agents(["rerun", ...args]);
    expect(refused).toMatchObject({ code, out: "" });
    expect(refused.err).toContain(why);
  }
}, 60_000);
