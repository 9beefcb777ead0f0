/** `agents rerun`, as people run it: the past on its own code and on the next release's. */
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, expect, test } from "vitest";
import { agentId } from "../../schemas/Address.ts";
import { loadForRuns } from "../../services/cli/serving/loadForRuns.ts";
import type { Terminal } from "../../services/cli/terminal/Terminal.ts";
import { Installation } from "../kit/Installation.ts";
import { pollUntil } from "../kit/poll.ts";
import { runAgents } from "../kit/runAgents.ts";

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
  "plain again",
];
const ID = agentId("RepoAgent", "hello");
const PAY = agentId("PayAgent", "acme");

let installation: Installation;
let ports: Installation["ports"];
let API = "";

interface Line {
  readonly seq: number;
  readonly inputs: string[];
  readonly outcome: string;
  readonly why?: string;
  readonly differences?: string[];
  readonly sends?: unknown[];
}

const agents = (args: ReadonlyArray<string>, env: Readonly<Record<string, string>> = {}) =>
  runAgents(args, { NATS_URL: installation.nats.url, ...env });
const linesOf = (out: string): Line[] =>
  out.trimEnd().split("\n").map((line) => JSON.parse(line) as Line); // prettier-ignore

/** The server that `PayAgent` calls: it refuses `retried` once and `died` always. */
const asked: string[] = [];
const api = createServer((request, response) => {
  const path = request.url!.slice(1);
  asked.push(path);
  const nth = asked.filter((each) => each === path).length;
  if (path === "died" || (path === "retried" && nth === 1)) response.statusCode = 503;
  response.end(`${asked.length}`);
});

async function webhook(n: number, body: string | Uint8Array, id = ID): Promise<void> {
  const head = {
    key: `hook:${n}`,
    provider: "github",
    type: "push",
    url: "http://hooks.test/webhooks/github",
    headers: { "content-type": "application/json" },
  };
  await installation.publish(id, head, body);
  await pollUntil("it is done", async () => (await ports.inbox.depth()) === 0);
}

beforeAll(async () => {
  await new Promise<void>((resolve) => api.listen(0, "127.0.0.1", resolve));
  API = `http://127.0.0.1:${(api.address() as AddressInfo).port}`;
  installation = await Installation.start({ shards: 2, module: NOW, gateway: false, env: { API } });
  ({ ports } = installation);
  await (await installation.startHost("host")).ready();
  for (const [n, ref] of REFS.entries()) await webhook(n, JSON.stringify({ ref }));
});
afterAll(async () => {
  api.close();
  await installation?.kill();
});

test("on the same code nothing differs, and nothing is changed", async () => {
  const before = (await ports.journal.last(ID))!.seq;
  const again = await agents(["rerun", "repo-agent", "hello", NOW]);
  expect(again).toMatchObject({ code: 0, err: "" });
  const lines = again.out.trimEnd().split("\n");
  const sends = lines.filter((line) => line.startsWith(" "));
  expect(sends).toEqual(["    would send: POST https://hooks.example.com/all"]);
  expect(lines).toHaveLength(REFS.length + sends.length + 1);
  expect(lines[0]).toMatch(/^\d+ {2}github push hook:0 {2}same$/);
  expect(lines.at(-1)).toBe("RepoAgent/hello: 9 the same, 0 different, 0 failed, 0 skipped.");
  expect((await ports.journal.last(ID))!.seq).toBe(before);
});

test("a selection without webhooks says that nothing was compared", async () => {
  const none = await agents(["rerun", "repo-agent", "hello", NOW, "--from", "99999"]);
  expect(none.code).toBe(0);
  expect(none.out).toContain("0 the same");
  expect(none.err).toContain("Nothing was compared");
});

test("says that the module's top level may wait without end", async () => {
  const lines: string[] = [];
  const terminal = { cwd: "/", env: {}, err: (line: string) => lines.push(line) };
  const late = { after: (_ms: number, f: () => void) => (f(), () => undefined) };
  // The test's own process has no module hooks: the load ends with an error.
  const load = loadForRuns(terminal as unknown as Terminal, late, "absent.ts", new Set());
  await expect(load).rejects.toThrow("no such file");
  expect(lines.join("\n")).toContain("absent.ts is still loading: does its top level await");
});

test("on other code each webhook reports its own differences", async () => {
  const again = await agents(["rerun", "RepoAgent", "hello", NEXT, "--json"]);
  expect(again.code).toBe(4);
  expect(again.err).toContain("3 the same, 4 different, 2 failed, 0 skipped");
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
    sends: [{ kind: "fetch", method: "GET", url: "https://api.example.com/refs" }],
  });
  expect(told.get("notified")).toMatchObject({ outcome: "same" });
  expect(told.get("sent")).toMatchObject({
    outcome: "differs",
    differences: [expect.stringMatching(/^webhooks sent: with .*hooks\.example\.com/)],
    sends: [{ kind: "webhook", method: "POST", url: "https://hooks.example.com/refs" }],
  });
});

test("webhooks that made calls run again with the recorded answers, even after retries or when they died", async () => {
  for (const [n, ref] of ["paid", "retried", "died"].entries())
    await webhook(n, JSON.stringify({ ref }), PAY);
  const before = asked.length;
  const same = await agents(["rerun", "PayAgent", "acme", NOW, "--json"], { API });
  expect(same).toMatchObject({ code: 0, err: "" });
  expect(linesOf(same.out)).toMatchObject([
    { inputs: ["github push hook:0"], outcome: "same" },
    { inputs: ["github push hook:1"], outcome: "same" },
    { inputs: ["github push hook:2"], outcome: "same" },
  ]);
  const other = await agents(["rerun", "PayAgent", "acme", NEXT, "--json"], { API });
  expect(other.code).toBe(4);
  expect(linesOf(other.out)).toMatchObject([
    {
      outcome: "fails",
      why: expect.stringContaining("a re-run sends nothing"),
      differences: expect.arrayContaining([
        `fetch POST ${API}/paid: request.body.amount: 1 -> 2`,
        "state.paid: 2 -> 0",
      ]),
    },
    { outcome: "fails" },
    { outcome: "differs" },
  ]);
  expect(asked.length).toBe(before);
});

test("settings come from the environment, and a part of the history can be rerun", async () => {
  const options = ["--last", "1", "--json"];
  const again = await agents(["rerun", "RepoAgent", "hello", NOW, ...options], { STEP: "10" });
  expect(again.code).toBe(4);
  expect(linesOf(again.out)).toMatchObject([
    { inputs: ["github push hook:8"], differences: ["state.count: 8 -> 17"] },
  ]);
  const all = linesOf((await agents(["rerun", "RepoAgent", "hello", NOW, "--json"])).out);
  const [from, to] = [all[2]!.seq, all[4]!.seq];
  const part = await agents(["rerun", "RepoAgent", "hello", NOW, "--from", `${from}`, "--to", `${to}`, "--json"]); // prettier-ignore
  expect(linesOf(part.out).map(({ seq }) => seq)).toEqual([2, 3, 4].map((n) => all[n]!.seq));
});

test("--failed reruns only what failed or was retried", async () => {
  const broken = await agents(["rerun", "RepoAgent", "hello", NOW, "--failed", "--json"]);
  expect(linesOf(broken.out)).toMatchObject([{ inputs: ["github push hook:3"], outcome: "same" }]);
  const paid = await agents(["rerun", "PayAgent", "acme", NOW, "--failed", "--json"], { API });
  expect(linesOf(paid.out).map(({ inputs }) => inputs)).toEqual([
    ["github push hook:1"],
    ["github push hook:2"],
  ]);
});

test("invalid arguments are errors that say what is wrong", async () => {
  const cases: ReadonlyArray<readonly [string[], number, string]> = [
    [["RepoAgent", "nobody", NOW], 3, "nobody"],
    [
      ["RepoAgent", "hello", NONE],
      1,
      "does not export an agent class RepoAgent; its classes: OtherAgent",
    ],
    [["RepoAgent", "hello", pathOf("./rerun/gone.ts")], 1, "no such file"],
    [["RepoAgent", "hello", NOW, "--last", "0"], 2, "--last"],
  ];
  for (const [args, code, why] of cases) {
    const refused = await agents(["rerun", ...args]);
    expect(refused).toMatchObject({ code, out: "" });
    expect(refused.err).toContain(why);
  }
});
