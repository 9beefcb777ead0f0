/** More agents with a database than fit into memory, all of which ask to stay: none is lost. */
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, expect, test } from "vitest";
import { agentId } from "../../schemas/Address.ts";
import { decodeEvent } from "../../schemas/JournalEvent.ts";
import type { AgentsProcess } from "../kit/AgentsProcess.ts";
import { Installation } from "../kit/Installation.ts";
import { pollUntil } from "../kit/poll.ts";
import { inputsDone, touchAll, untilTaken } from "./touchAll.ts";

const AGENTS = 4_500;
const TOUCHES = 2;
const AT_ONCE = 128;
/** Who is in mid-turn stays in memory: no more than these are. */
const WAVE = 500;
/** What the process itself takes is some 60 MB of it. */
const MEMORY_MIB = 160;
/** Ten seconds is usual; other suites may run on the same two cores. */
const SLOW_MACHINE_MS = 120_000;

let installation: Installation;
let host: AgentsProcess;
let activeMost = 0;

beforeAll(async () => {
  const module = fileURLToPath(new URL("./fullModule.ts", import.meta.url));
  installation = await Installation.start({ shards: 8, module, gateway: false });
  host = await installation.startHost("data", {
    args: ["--memory", `${MEMORY_MIB}`],
    nodeArgs: ["--expose-gc"],
  });
  await host.ready();
  const look = async (): Promise<void> => {
    activeMost = Math.max(activeMost, await host.metric("agents_active"));
  };
  const timeoutMs = SLOW_MACHINE_MS;
  for (let touch = 0; touch < TOUCHES; touch++)
    for (let first = 0; first < AGENTS; first += WAVE) {
      await touchAll(installation.ports.inbox, {
        className: "Kept", first, agents: WAVE, atOnce: AT_ONCE, timeoutMs, key: `${touch}`,
      }); // prettier-ignore
      await untilTaken(host, AGENTS * touch + first + WAVE, { timeoutMs, look });
    }
}, 3 * SLOW_MACHINE_MS);

afterAll(() => installation?.stop());

test("the longest idle agents are evicted, and memory stays below its limit", async () => {
  const status = readFileSync(`/proc/${host.pid}/status`, "utf8");
  const residentMb = Number(/^VmHWM:\s+(\d+) kB/m.exec(status)![1]) / 1024;
  const hibernated = await host.metric("agents_hibernations_total");
  console.info("full memory:", { activeMost, hibernated, "most resident, MB": residentMb });
  // All at once would be 330 MB of pages and connections.
  expect(activeMost).toBeLessThan(AGENTS * 0.85);
  expect(hibernated).toBeGreaterThan(AGENTS * 0.5);
  await pollUntil("it has room again", async () => {
    // A host without work collects no garbage, and garbage counts as in use until it is collected.
    process.kill(host.pid, "SIGUSR2");
    const inUse = await host.metric("agents_memory_in_use");
    return inUse < 1 || { done: false, saw: inUse };
  });
});

test("every input is processed once, and none is dropped", async () => {
  const lost = host.lines.filter(({ message }) => message === "shard lost").length;
  const done = await inputsDone(host);
  // Inputs of a shard that a slow machine lost may run again; they are journaled once all the same.
  if (lost === 0) expect(done).toBe(AGENTS * TOUCHES);
  else expect(done).toBeGreaterThanOrEqual(AGENTS * TOUCHES);
  expect(await host.metric("agents_dead_letters_total")).toBe(0);
  for (let n = 0; n < AGENTS; n += 9) {
    const turns = [];
    const id = agentId("Kept", `${n}`);
    for await (const { data } of installation.ports.journal.read(id, { fromSeq: 1 as never }))
      turns.push(...decodeEvent(data).head.turns);
    // On a busy machine an input that waited for seconds is journaled as begun first.
    const ended = turns.filter(({ begun }) => begun !== true);
    expect(ended.map(({ state }) => state)).toEqual(
      Array.from({ length: TOUCHES }, (_, touch) => ({ set: { touches: touch + 1 } })),
    );
  }
});
