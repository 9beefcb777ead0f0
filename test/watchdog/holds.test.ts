/**
 * Turns that hold or end their process, in an installation of real processes with a parent that
 * starts its workers again: the log names the agent and the line, the input is dead after its
 * attempts, and the neighbours' webhooks apply once.
 */
import { execFile } from "node:child_process";
import { createHmac, randomUUID } from "node:crypto";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { Installation, SECRET } from "../faults/Installation.ts";
import type { AgentsProcess } from "../kit/AgentsProcess.ts";
import { pollUntil } from "../kit/poll.ts";

const MODULE = fileURLToPath(new URL("./holdingModule.ts", import.meta.url));
/** Some deaths and take-overs, on a busy machine. */
const TIMEOUT_MS = 120_000;
const NEIGHBOURS = 8;

let installation: Installation;
let host: AgentsProcess;
let hosts = 0;

beforeAll(async () => {
  installation = await Installation.start({ shards: 8, leaseTtlMs: 2_000, module: MODULE });
}, TIMEOUT_MS);
// A parent of its own for each: one whose workers died often starts them again more slowly.
beforeEach(async () => {
  host = await installation.startHost(`host-${++hosts}`, ["--workers", "2"]);
  await installation.shared(2, TIMEOUT_MS);
}, TIMEOUT_MS);
afterEach(() => host.stop(), TIMEOUT_MS);
afterAll(() => installation?.stop(), TIMEOUT_MS);

async function send(route: string, agent: string, more = {}, id = randomUUID()): Promise<number> {
  const body = JSON.stringify({ agent, ...more });
  const signature = createHmac("sha256", SECRET).update(body).digest("hex");
  const response = await fetch(`${installation.gateway.url}/webhooks/${route}`, {
    method: "POST",
    headers: {
      "content-type": "application/json",
      "x-github-event": "push",
      "x-github-delivery": id,
      "x-hub-signature-256": `sha256=${signature}`,
    },
    body,
  });
  await response.arrayBuffer();
  return response.status;
}

const countOf = async (name: string): Promise<number> => {
  const response = await fetch(`${installation.gateway.url}/agents/neighbour/${name}`);
  return response.ok ? ((await response.json()) as { count: number }).count : -1;
};

const lineOf = (name: string, message: string) =>
  host.lines.find((line) => line["name"] === name && line.message.includes(message));

const MAIN = fileURLToPath(new URL("../../dist/services/cli/main.js", import.meta.url));
/** The dead letter of the agent's input, as JSON. Undefined: there is none yet. */
const deadOf = async (name: string): Promise<string | undefined> => {
  const args = [MAIN, "dead", "list", "--nats", installation.nats.url, "--json"];
  const { stdout } = await promisify(execFile)(process.execPath, args);
  return stdout.split("\n").find((line) => line.includes(`"${name}"`));
};

/**
 * Sends neighbours webhooks until an input that holds its process is dead; each has to apply once.
 */
async function whileNeighboursWork(how: string): Promise<void> {
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
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
  });
  expect(await send("holder", how, { how })).toBe(202);
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
    ["microtasks", /./],
    ["sql", /./],
    ["native", /native code/],
  ])(
    "is ended and named (%s); its input is dead, and the neighbours lose nothing",
    async (how, where) => {
      await whileNeighboursWork(how);
      expect(lineOf(how, "for longer than cpuSeconds")).toMatchObject({
        level: "error",
        class: "Holder",
        turn: "webhook",
        key: expect.any(String) as string,
        where: expect.stringMatching(where) as string,
      });
      expect(await deadOf(how)).toMatch(
        new RegExp(`held the thread of its process for .* in .*${where.source}`),
      );
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
      expect(lineOf(how, text)).toMatchObject({ class: "Holder", turn: "webhook" });
      expect(await deadOf(how)).toContain(`an agent's code ended its process by ${text}`);
    },
    TIMEOUT_MS * 2,
  );
});
