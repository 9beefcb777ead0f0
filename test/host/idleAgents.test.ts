/** Memory stays flat: 8,000 agents are touched once and hibernate, and the heap is as before. */
import { existsSync, readFileSync, rmSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { agentId } from "../../schemas/Address.ts";
import { decodeEvent } from "../../schemas/JournalEvent.ts";
import type { AgentsProcess } from "../kit/AgentsProcess.ts";
import { Installation } from "../kit/Installation.ts";
import { pollUntil } from "../kit/poll.ts";
import { touchAll, untilTaken } from "./touchAll.ts";

const AGENTS = 8_000;
const AT_ONCE = 256;
/** Half a minute is usual; other suites may run on the same two cores. */
const SLOW_MACHINE_MS = 240_000;
/** The default is 5 s, in which a machine that runs other suites may give the host no time. */
const LEASE_TTL_MS = 20_000;
const MB = 1024 * 1024;
/** A database's pages alone are more for each. */
const HEAP_GROWTH_MAX = 30 * MB;
/** Beyond what it had at the start: a handful of sockets and files that happen to be open. */
const DESCRIPTORS_GROWTH_MAX = 300;

interface Memory {
  readonly heapUsed: number;
  readonly rss: number;
  readonly arrayBuffers: number;
  readonly external: number;
  readonly descriptors: number;
}

let installation: Installation;
let memoryFile: string;
let host: AgentsProcess;
let before: Memory;
let busy: Memory;
let after: Memory;

async function memory(): Promise<Memory> {
  rmSync(memoryFile, { force: true });
  process.kill(host.pid, "SIGUSR2");
  await pollUntil("the host measures itself", () => existsSync(memoryFile));
  return JSON.parse(readFileSync(memoryFile, "utf8")) as Memory;
}

beforeAll(async () => {
  const module = fileURLToPath(new URL("./idleModule.ts", import.meta.url));
  installation = await Installation.start({
    shards: 16,
    module,
    gateway: false,
    leaseTtlMs: LEASE_TTL_MS,
  });
  memoryFile = installation.pathOf("memory.json");
  host = await installation.startHost("data", {
    env: { MEMORY_FILE: memoryFile },
    nodeArgs: ["--expose-gc"],
  });
  await host.ready();
  before = await memory();
  const startMs = performance.now();
  await touchAll(installation.ports.inbox, {
    className: "Touched", agents: AGENTS, atOnce: AT_ONCE, timeoutMs: SLOW_MACHINE_MS, key: "touch",
  }); // prettier-ignore
  const storedMs = performance.now() - startMs;
  await untilTaken(host, AGENTS, { timeoutMs: SLOW_MACHINE_MS });
  const doneMs = performance.now() - startMs;
  busy = await memory();
  await pollUntil(
    "no agent is in memory",
    async () => {
      const active = await host.metric("agents_active");
      const hibernated = await host.metric("agents_hibernations_total");
      const lost = host.lines.filter(({ message }) => message === "shard lost").length;
      // Those of a lost shard were thrown out, and are not counted; a test below says so.
      const left = hibernated >= AGENTS || lost > 0;
      return (
        (active === 0 && left) || {
          done: false,
          saw: { active, hibernated, lost, told: host.told() },
        }
      );
    },
    { timeoutMs: SLOW_MACHINE_MS, intervalMs: 100 },
  );
  const idleMs = performance.now() - startMs;
  after = await memory();
  const perAgent = Math.round((after.heapUsed - before.heapUsed) / AGENTS);
  console.info("idle agents:", {
    "stored, done, all hibernated, ms": [storedMs, doneMs, idleMs].map(Math.round),
    "heap before, busy, after, MB": [before, busy, after].map((m) => Math.round(m.heapUsed / MB)),
    "resident before, busy, after, MB": [before, busy, after].map((m) => Math.round(m.rss / MB)),
    "external after, MB": Math.round(after.external / MB),
    "heap per idle agent, bytes": perAgent,
    descriptors: [before.descriptors, busy.descriptors, after.descriptors],
  });
}, 3 * SLOW_MACHINE_MS);

afterAll(() => installation?.stop());

describe(`${AGENTS} agents that were touched once and are idle`, () => {
  test("leave the host's heap within 30 MB of where it started", () => {
    expect(after.heapUsed - before.heapUsed).toBeLessThan(HEAP_GROWTH_MAX);
  });

  test("leave no memory behind outside the heap either", () => {
    expect(after.external - before.external).toBeLessThan(HEAP_GROWTH_MAX);
  });

  test("leave no open files behind", () => {
    expect(after.descriptors - before.descriptors).toBeLessThan(DESCRIPTORS_GROWTH_MAX);
  });

  test("do not make the host miss lease renewals", () => {
    expect(host.lines.filter(({ message }) => message === "shard lost")).toEqual([]);
  });

  test("have received each message once", async () => {
    const id = agentId("Touched", "30");
    const turns = [];
    for await (const { data } of installation.ports.journal.read(id, { fromSeq: 1 as never }))
      turns.push(...decodeEvent(data).head.turns);
    // On a busy machine an input that waited for seconds is journaled as begun first.
    expect(turns.filter(({ begun }) => begun !== true)).toHaveLength(1);
    expect(turns.at(-1)).toMatchObject({
      state: { set: { text: "touch of 30" } },
      done: ["touch-30"],
    });
  });
});
