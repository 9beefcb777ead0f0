/**
 * Turns that hold or end their process, in an installation of real processes: the log names the
 * agent and the line, one worker ends once, the later attempts run alone, the input is dead after
 * its attempts, and the neighbours' webhooks apply once.
 */
import { createHmac, randomUUID } from "node:crypto";
import { fileURLToPath } from "node:url";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { decodeDeadLetter } from "../../schemas/DeadLetter.ts";
import { Installation, SECRET } from "../kit/Installation.ts";
import type { AgentsProcess } from "../kit/AgentsProcess.ts";
import { pollUntil } from "../kit/poll.ts";

const MODULE = fileURLToPath(new URL("./holdingModule.ts", import.meta.url));
/** Some deaths and take-overs, on a busy machine. */
const TIMEOUT_MS = 120_000;
/** One for each shard. */
const NEIGHBOURS = 8;
/** From one webhook of a neighbour to its next. */
const PACE_MS = 250;
const HEAP = "--max-old-space-size=200";

let installation: Installation;
let host: AgentsProcess;
let hosts = 0;

beforeAll(async () => {
  installation = await Installation.start({ shards: 8, leaseTtlMs: 2_000, module: MODULE });
}, TIMEOUT_MS);
// A host of its own for each: one that fails leaves nothing to the next.
beforeEach(async () => {
  // Little memory, so that it is soon full.
  const args = ["--workers", "2", "--memory", "256"];
  host = await installation.startHost(`host-${++hosts}`, { args, env: { NODE_OPTIONS: HEAP } });
  await installation.shared(2, TIMEOUT_MS);
}, TIMEOUT_MS);
afterEach(() => host.stop(), TIMEOUT_MS);
afterAll(() => installation?.stop(), TIMEOUT_MS);

/** As a provider: again, with the same id, until it is taken. Resolves to the answer's status. */
function send(route: string, agent: string, more = {}): Promise<number> {
  const body = JSON.stringify({ agent, ...more });
  const signature = createHmac("sha256", SECRET).update(body).digest("hex");
  const headers = {
    "content-type": "application/json",
    "x-github-event": "push",
    "x-github-delivery": randomUUID(),
    "x-hub-signature-256": `sha256=${signature}`,
  };
  const url = `${installation.gateway.url}/webhooks/${route}`;
  return pollUntil(
    `a webhook of ${agent} is taken`,
    async () => {
      const response = await fetch(url, { method: "POST", headers, body });
      await response.arrayBuffer();
      const { status } = response;
      // A turn that failed is answered so, and runs again by itself.
      return status === 503 ? { done: false, saw: status } : { done: true, value: status };
    },
    { timeoutMs: TIMEOUT_MS, intervalMs: PACE_MS },
  );
}

const countOf = async (name: string): Promise<number> => {
  const response = await fetch(`${installation.gateway.url}/agents/neighbour/${name}`);
  return response.ok ? ((await response.json()) as { count: number }).count : -1;
};

const endedWorkers = () => host.lines.filter(({ message }) => message === "worker ended");
const linesOf = (name: string, message: string) =>
  host.lines.filter((line) => line["name"] === name && line.message.includes(message));

/** One worker has ended, once; everything after it has ended only the processes of the agent. */
function expectAlone(name: string): void {
  const bad = host.lines.filter(({ level }) => level === "warn" || level === "error");
  expect(endedWorkers(), bad.map((line) => JSON.stringify(line)).join("\n")).toHaveLength(1);
  expect(linesOf(name, "it now runs in its own process")).toHaveLength(1);
  // Two attempts: the first beside others, the second alone.
  expect(linesOf(name, "an isolated agent has ended its process")).toHaveLength(1);
}

/** How many processes the agent has ended. */
const endsOf = (name: string): number =>
  linesOf(name, "for longer than cpuSeconds: the process is ended").length;

/** Why the agent's input is dead. Undefined: it is not. */
async function deadOf(name: string): Promise<string | undefined> {
  for await (const { id, data } of installation.ports.deadLetters.list())
    if (id.name === name) return decodeDeadLetter(data).head.reason;
  return undefined;
}

/**
 * Sends neighbours webhooks until an input that holds its process is dead; each has to apply once.
 */
async function whileNeighboursWork(how: string, route = "holder"): Promise<void> {
  const sent = new Map<string, number>();
  const before = new Map<string, number>();
  const names = Array.from({ length: NEIGHBOURS }, (_, n) => `neighbour-${n}`);
  for (const name of names)
    await pollUntil(
      `${name} answers`,
      async () => {
        const count = await countOf(name);
        before.set(name, count);
        return count >= 0;
      },
      { timeoutMs: TIMEOUT_MS },
    );
  let done = false;
  const working = names.map(async (name) => {
    while (!done) {
      expect([200, 202]).toContain(await send("neighbour", name));
      sent.set(name, (sent.get(name) ?? 0) + 1);
      await new Promise((resolve) => setTimeout(resolve, PACE_MS));
    }
  });
  expect([202, 500]).toContain(await send(route, how, { how }));
  await pollUntil(
    "its input is dead",
    async () => (await deadOf(how)) !== undefined || { done: false, saw: host.told() },
    { timeoutMs: TIMEOUT_MS, intervalMs: 500 },
  ).finally(() => (done = true));
  await Promise.all(working);
  for (const name of names) {
    const wanted = before.get(name)! + sent.get(name)!;
    await pollUntil(
      `${name} has its ${wanted} webhooks`,
      async () => {
        const saw = await countOf(name);
        return saw === wanted || { done: false, saw };
      },
      { timeoutMs: TIMEOUT_MS },
    );
  }
}

describe("a turn that holds its process", () => {
  test.each([
    ["loop", /holdingModule\.ts:\d+/],
    ["afterAwait", /holdingModule\.ts:\d+/],
    ["regex", /holdingModule\.ts:\d+/],
    ["microtasks", /holdingModule\.ts:\d+/],
    ["sql", /./],
    ["native", /native code/],
  ])(
    "is ended and named (%s); its input is dead, and the neighbours lose nothing",
    async (how, where) => {
      await whileNeighboursWork(how);
      const lines = linesOf(how, "for longer than cpuSeconds");
      expect(lines.map(({ attempt }) => attempt)).toEqual([1, 2]);
      for (const line of lines)
        expect(line).toMatchObject({
          level: "error",
          class: "Holder",
          turn: "webhook",
          key: expect.any(String) as string,
        });
      // A machine that is very busy does not pause the code in time. Then it is called native.
      expect(lines.map((line) => line["where"]).join(" ")).toMatch(where);
      expect(await deadOf(how)).toMatch(/held the thread of its process for .* in /);
      expectAlone(how);
    },
    TIMEOUT_MS * 2,
  );
});

describe("a turn that fills the memory of its process", () => {
  test.each([
    ["heap", "its heap had"],
    ["leak", "its heap had"],
    ["buffers", "it had"],
  ])(
    "is ended and named (%s); its input is dead, and the neighbours lose nothing",
    async (how, text) => {
      await whileNeighboursWork(how, "hoarder");
      expect(linesOf(how, "the memory of a process is nearly full")[0]).toMatchObject({
        class: "Hoarder",
        turn: "webhook",
        memory: expect.stringContaining(text) as string,
      });
      expect(await deadOf(how)).toContain(`memory of its process was nearly full (${text}`);
      // A turn that waits in between may be taken for a neighbour's at first; not by most looks.
      expect(linesOf(how, "it now runs in its own process")).toHaveLength(1);
    },
    TIMEOUT_MS * 2,
  );

  test(
    "with a string that no process can hold fails like any turn",
    async () => {
      await whileNeighboursWork("longString");
      expect(await deadOf("longString")).toContain("RangeError: Invalid string length");
      expect(endedWorkers()).toEqual([]);
    },
    TIMEOUT_MS * 2,
  );
});

describe("an agent whose inputs keep ending processes", () => {
  test(
    "is quarantined: its webhooks are stored and answered 202, until it is released",
    async () => {
      for (const n of [1, 2, 3]) {
        expect(await send("holder", "again", { how: "loop", n })).toBe(202);
        await pollUntil(`input ${n} has ended a process`, () => endsOf("again") >= n, {
          timeoutMs: TIMEOUT_MS,
        });
      }
      await pollUntil(
        "it is quarantined",
        async () => {
          const marked = await installation.ports.quarantines.list();
          return marked.some(({ id }) => id.name === "again") || { done: false, saw: host.told() };
        },
        { timeoutMs: TIMEOUT_MS },
      );
      const listed = await installation.agents("list", "--quarantined", "--json");
      expect(listed.out).toMatch(/"again".*"kind":"kills".*holdingModule\.ts:\d+/);
      const ends = endsOf("again");
      expect(await send("holder", "again", { how: "mark" })).toBe(202);
      expect((await fetch(`${installation.gateway.url}/agents/holder/again`)).status).toBe(503);
      expect(endsOf("again")).toBe(ends);
      expect(await installation.agents("release", "Holder", "nobody")).toMatchObject({ code: 3 });
      const released = await installation.agents("release", "holder", "again");
      expect(released.out).toContain("is released");
      // Two are dead by their attempts, or will be: what waits runs again.
      await pollUntil(
        "it answers",
        async () => (await fetch(`${installation.gateway.url}/agents/holder/again`)).ok,
        { timeoutMs: TIMEOUT_MS },
      );
      const bad = host.lines.filter(({ level }) => level === "warn" || level === "error");
      expect(endedWorkers(), bad.map((line) => JSON.stringify(line)).join("\n")).toHaveLength(1);
    },
    TIMEOUT_MS * 2,
  );
});

describe("a turn that ends its process", () => {
  test.each([
    ["exit", "process.exit()"],
    ["abort", "process.abort()"],
  ])(
    "is named (%s); its input is dead, and the neighbours lose nothing",
    async (how, text) => {
      await whileNeighboursWork(how);
      expect(linesOf(how, text)[0]).toMatchObject({ class: "Holder", turn: "webhook" });
      expectAlone(how);
      expect(await deadOf(how)).toContain(`an agent's code ended its process by ${text}`);
    },
    TIMEOUT_MS * 2,
  );

  test(
    "without a word is found by its attempts; its input is dead, and the neighbours lose nothing",
    async () => {
      await whileNeighboursWork("crash");
      expect(await deadOf("crash")).toContain(
        "its attempts are exhausted, and the last one did not end",
      );
    },
    TIMEOUT_MS * 2,
  );
});
