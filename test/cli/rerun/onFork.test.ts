/** `--on-fork`, as people run it: dead letters and deliveries run on copies of agents first. */
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, expect, test } from "vitest";
import { agentId } from "../../../schemas/Address.ts";
import { deliveryIds } from "../../../schemas/DeliveryRecord.ts";
import type { Tried } from "../../../services/cli/agents/onFork.ts";
import type { AgentsProcess } from "../../kit/AgentsProcess.ts";
import { Installation } from "../../kit/Installation.ts";
import { pollUntil } from "../../kit/poll.ts";
import { runAgents } from "../../kit/runAgents.ts";
import { runCommand } from "../../kit/runCommand.ts";
import { LEASE_TTL_MS_DEFAULT as leaseTtlMs } from "../../../services/nats/setup/provision.ts";

const pathOf = (name: string): string => fileURLToPath(new URL(name, import.meta.url));
const NOW = pathOf("./now.ts");
const NEXT = pathOf("./next.ts");
const ENDS = fileURLToPath(new URL("./ends.ts", import.meta.url));
const REPO = agentId("RepoAgent", "hello");
const PAY = agentId("PayAgent", "acme");

let installation: Installation;
let running: AgentsProcess;
let ports: Installation["ports"];
let API = "";
/** Numbers of letters, by what they are of. */
const letters: Record<string, number> = {};

const asked: string[] = [];
const api = createServer((request, response) => {
  asked.push(request.url!);
  response.statusCode = request.url === "/died" ? 503 : 200;
  response.end("1");
});

const agents = (...args: string[]) => runAgents(args, { NATS_URL: installation.nats.url, API });
const jsonOf = (out: string): Array<Tried & { readonly redriven?: true }> =>
  out.trimEnd().split("\n").map((line) => JSON.parse(line) as Tried); // prettier-ignore
const numbers = async (): Promise<number[]> => {
  const found: number[] = [];
  for await (const { seq } of ports.deadLetters.list()) found.push(seq);
  return found;
};
const lastOf = async (id = REPO): Promise<number> => (await ports.journal.last(id))!.seq;

/** Resolves when it is a dead letter and its agent's journal has its end, which comes after. */
async function dies(what: string, begin: () => Promise<unknown>): Promise<void> {
  const before = await numbers();
  await begin();
  letters[what] = await pollUntil(`${what} is dead`, async () => {
    const [found] = (await numbers()).filter((number) => !before.includes(number));
    return found === undefined ? { done: false, saw: before } : { done: true, value: found };
  });
  await pollUntil("its end is stored", async () => (await ports.inbox.depth()) === 0);
}

const push =
  (what: string, ref: string, id = REPO) =>
  (): Promise<unknown> => {
    const url = "http://hooks.test/webhooks/github";
    const head = { key: `hook:${what}`, provider: "github", type: "push", url };
    return installation.publish(id, head, JSON.stringify({ ref }));
  };

beforeAll(async () => {
  await new Promise<void>((resolve) => api.listen(0, "127.0.0.1", resolve));
  API = `http://127.0.0.1:${(api.address() as AddressInfo).port}`;
  installation = await Installation.start({
    shards: 2,
    leaseTtlMs,
    module: NOW,
    gateway: false,
    env: { API },
  });
  ({ ports } = installation);
  running = await installation.startHost("host");
  await running.ready();
  const call = installation.caller("RepoAgent");
  // The very first input: the fork's first one has the same sequence in its own inbox.
  await dies("broken", push("broken", "broken"));
  await dies("again", push("again", "broken"));
  await dies("queued", () => call("hello", "enqueue", "an item"));
  await dies("planned", () => call("hello", "plan", "a plan"));
  await dies("direct", push("direct", "direct"));
  await dies("died", push("died", "died", PAY));
});
afterAll(async () => {
  api.close();
  await installation?.kill();
});

test("code that ends its process fails on its fork, and does not end the command", async () => {
  const before = await numbers();
  const args = [String(letters["broken"]), "--on-fork", "--module", ENDS, "--json", "--yes"];
  const ran = await agents("dead", "redrive", ...args);
  expect(ran.code).toBe(4);
  expect(jsonOf(ran.out)).toMatchObject([
    { outcome: "fails", why: "EndsProcess: process.exit() was called, which ends the process of a host" },
  ]); // prettier-ignore
  expect(await numbers()).toEqual(before);
});

test("dead letters of an agent run one after another on one fork; nothing is sent, stored or removed", async () => {
  const before = [await numbers(), await lastOf(), await lastOf(PAY), asked.length];
  const ran = await agents("dead", "redrive", "--all", "--on-fork", "--module", NEXT, "--json");
  expect(ran.err).toContain("agents: 2 of 6 failed on their forks, and were not redriven.\n");
  expect(ran.code).toBe(4);
  const about = { class: "RepoAgent", name: "hello", seq: before[1] };
  const { host } = new URL(API);
  expect(jsonOf(ran.out)).toEqual([
    {
      ...about,
      id: letters["broken"],
      outcome: "done",
      differences: ['state: unset -> {"count":0,"last":"unreadable"}'],
      sends: [],
    },
    { ...about, id: letters["again"], outcome: "done", differences: [], sends: [] },
    {
      ...about,
      id: letters["queued"],
      outcome: "done",
      differences: [
        'state.last: "unreadable" -> "picked an item"',
        expect.stringMatching(/^webhooks sent: with .*hooks\.example\.com\/picked/),
      ],
      sends: [{ kind: "webhook", method: "POST", url: "https://hooks.example.com/picked" }],
    },
    {
      ...about,
      id: letters["planned"],
      outcome: "done",
      differences: expect.arrayContaining(['state.last: "picked an item" -> "picked a plan"']),
      sends: expect.anything(),
    },
    {
      ...about,
      id: letters["direct"],
      outcome: "fails",
      why: `NothingLeaves: ${host} was not called: a run in memory sends nothing`,
      differences: [],
      sends: [],
    },
    {
      class: "PayAgent",
      name: "acme",
      seq: before[2],
      id: letters["died"],
      outcome: "fails",
      why: expect.stringContaining(`fetch POST ${API}/died`),
      // Its first step has the recorded result. The one that had failed has none.
      differences: [`fetch POST ${API}/died: it was not recorded`, "state.tries: 2 -> 4"],
      sends: [],
    },
  ]);
  expect([await numbers(), await lastOf(), await lastOf(PAY), asked.length]).toEqual(before);
});

test("with --yes, letters that succeed on the fork are redriven, and the others stay", async () => {
  const { broken, direct } = letters;
  const before = await numbers();
  const ran = await agents("dead", "redrive", `${direct}`, `${broken}`, "--on-fork", "--module", NEXT, "--yes"); // prettier-ignore
  expect([ran.code, ran.err]).toEqual([4, "agents: 1 of 2 failed on their forks, and were not redriven.\n"]); // prettier-ignore
  const lines = ran.out.trimEnd().split("\n");
  expect(lines.map((line) => line.split(/ {2,}/).slice(-1)[0])).toEqual([
    expect.stringMatching(/^fails: NothingLeaves/),
    "done",
    'state: unset -> {"count":0,"last":"unreadable"}',
    "RepoAgent hello: in the inbox again",
  ]);
  const left = await numbers();
  expect([left.includes(broken!), left.includes(direct!)]).toEqual([false, true]);
  // The host has the code with which it failed. Later tests look for letters of their own.
  await pollUntil("it is dead again", async () => {
    const saw = await numbers();
    return saw.length === before.length || { done: false, saw };
  });
});

test("steps of queue items and schedules return what they returned when the job died", async () => {
  const pay = installation.caller("PayAgent");
  await dies("item", () => pay("jobs", "payLater", "item"));
  await dies("plan", () => pay("jobs", "planToPay", "plan"));
  const before = asked.length;
  const numbersOf = [`${letters["item"]}`, `${letters["plan"]}`];
  const ran = await agents("dead", "redrive", ...numbersOf, "--on-fork", "--module", NEXT, "--json"); // prettier-ignore
  expect([ran.code, ran.err]).toEqual([0, ""]);
  // Each adds the 1 that was answered then. Nobody is asked again.
  expect(jsonOf(ran.out)).toMatchObject([
    { id: letters["item"], outcome: "done", differences: ['state: unset -> {"paid":1,"tries":0}'] },
    { id: letters["plan"], outcome: "done", differences: ["state.paid: 1 -> 2"] },
  ]);
  expect(asked.length).toBe(before);
});

test("a delivery can run on a fork first, too", async () => {
  const at = Date.now();
  const id = deliveryIds("tester")(at);
  const record = { id, at, time: at, status: "dead", agent: [REPO.class, REPO.name], key: "hook:again" } as const; // prettier-ignore
  ports.deliveries.record(record);
  await ports.deliveries.flush();
  const sent = await agents("redeliver", id, "--on-fork", "--module", NEXT, "--yes");
  expect([sent.code, sent.err]).toEqual([0, ""]);
  expect(sent.out).toMatch(/^\S+ {2}RepoAgent hello, forked at \d+ {2}done$/m);
  expect(sent.out).toMatch(/RepoAgent hello: delivered again as \S+$/m);
});

test("invalid arguments are errors that say what is wrong", async () => {
  const cases: ReadonlyArray<readonly [string[], number, string]> = [
    [["dead", "redrive", "1", "--yes"], 2, "--yes belongs to --on-fork"],
    [["dead", "redrive", "1", "--module", NEXT], 2, "--module belongs to --on-fork"],
    [["dead", "redrive"], 2, "Specify numbers of dead letters, or --all."],
    [["dead", "redrive", "1", "--all"], 2, "Specify numbers of dead letters, or --all."],
    [["dead", "redrive", "999", "--on-fork"], 3, "There is no dead letter 999."],
    [["release", "repo-agent", "hello", "--on-fork"], 1, "RepoAgent/hello is not quarantined."],
    [["release", "repo-agent", "hello", "--yes"], 2, "--yes belongs to --on-fork"],
    [["redeliver", "x", "--yes"], 2, "--yes belongs to --on-fork"],
    [["redeliver", "x", "--on-fork", "--dry-run"], 2, "leave out --dry-run"],
  ];
  for (const [args, code, why] of cases) {
    const refused = await runCommand([...args, "--nats", installation.nats.url]);
    expect([args, refused.code, refused.out]).toEqual([args, code, ""]);
    expect(refused.err).toContain(why);
  }
});

test("what waits for a quarantined agent runs on a fork, and it is released if nothing failed", async () => {
  const id = agentId("RepoAgent", "held");
  await installation.call(id, "enqueueHeld", "an item");
  await running.kill();
  await pollUntil("no host", async () => (await ports.leases.list("host.")).length === 0);
  await push("waits", "waits", id)();
  await push("direct again", "direct", id)();
  const nowMs = Date.now();
  const mark = { kind: "kills", reason: "it ended 3 processes", host: "host", sinceMs: nowMs, untilMs: nowMs + 3_600_000, times: 1 } as const; // prettier-ignore
  await ports.quarantines.put(id, mark);
  const quarantined = async (): Promise<boolean> =>
    (await ports.quarantines.list()).some((one) => one.id.name === "held" && one.mark.untilMs > Date.now()); // prettier-ignore
  const before = [await lastOf(id), asked.length];
  const release = (...args: string[]) =>
    agents("release", "repo-agent", "held", "--on-fork", "--module", NEXT, ...args);

  const ran = await release("--json", "--yes");
  expect(ran.err).toBe("agents: 1 of 4 failed on the fork. RepoAgent/held is still quarantined.\n");
  expect(ran.code).toBe(4);
  const about = { class: "RepoAgent", name: "held", seq: before[0] };
  const picked = (ref: string) => ({
    ...about,
    outcome: "done",
    differences: expect.arrayContaining([expect.stringContaining(`"picked ${ref}"`)]),
  });
  expect(jsonOf(ran.out)).toMatchObject([
    { ...about, id: "hook:waits", outcome: "done", differences: expect.arrayContaining(['state: unset -> {"count":1,"last":"waits"}']) }, // prettier-ignore
    { ...about, id: "hook:direct again", outcome: "fails", why: expect.stringMatching(/^NothingLeaves/) }, // prettier-ignore
    { ...picked("an item"), id: expect.stringMatching(/^queue:/) },
    { ...picked("an item's plan"), id: expect.stringMatching(/^schedule:/) },
  ]);
  expect([await lastOf(id), asked.length, await quarantined()]).toEqual([...before, true]);

  await ports.purgeInputs(id);
  const only = await release();
  expect([only.code, only.err]).toEqual([
    0,
    "On a fork only: RepoAgent/held is still quarantined. Add --yes to release it.\n",
  ]);
  expect(await quarantined()).toBe(true);
  const released = await release("--yes");
  expect([released.code, released.err]).toEqual([0, ""]);
  expect(released.out).toMatch(/RepoAgent\/held is released\. It was quarantined because it ended 3 processes\.$/m); // prettier-ignore
  expect(await quarantined()).toBe(false);
});
