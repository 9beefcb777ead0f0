/**
 * One agent that is sent requests at a fixed rate, answered or not, and neighbours with nothing to
 * do with it: what they wait for their answers meanwhile, beside what they wait just before.
 */
import { fileURLToPath } from "node:url";
import { setTimeout as sleep } from "node:timers/promises";
import { Agent as Connections, request } from "node:http";
import { BenchFailed, type Bench, type BenchRow } from "./Bench.ts";
import { durabilityOf } from "./rig/BenchHost.ts";
import { startAgents, type RunningAgents } from "./rig/startAgents.ts";
import { median, percentile } from "./rig/statistics.ts";

const MODULE = fileURLToPath(new URL("./agents/floodAgents.ts", import.meta.url));
const NEIGHBOURS = 40;
const PROBE_EVERY_MS = 5;
const FLOODS_PER_SECOND = [200, 1_000, 3_000] as const;
/** Requests are sent in bursts of this time. */
const BURST_MS = 10;
const CONNECTIONS = 256;

interface Measured {
  readonly rate: number;
  readonly quietMs: ReadonlyArray<number>;
  readonly floodMs: ReadonlyArray<number>;
  readonly answers: ReadonlyMap<number, number>;
}

export const flood: Bench = {
  name: "flood",
  about: "one agent that is sent 200 to 3,000 requests a second: what its neighbours wait",
  run: async (options) => {
    const { syncAlways, profile } = options;
    const agents = await startAgents({ module: MODULE, hosts: 0, syncAlways, profile });
    try {
      const found: Measured[] = [];
      for (let round = 0; round < options.rounds; round += 1)
        for (const rate of FLOODS_PER_SECOND) {
          const measured = await measure(agents, rate, options.seconds * 1000);
          options.say(
            `  ${rate}/s: p99 ${percentile(measured.quietMs, 99).toFixed(1)} ms before, ${percentile(measured.floodMs, 99).toFixed(1)} ms meanwhile`,
          );
          found.push(measured);
        }
      return {
        title: `${options.rounds} × ${options.seconds} s each, medians; ${NEIGHBOURS} neighbours, a state write each ${PROBE_EVERY_MS} ms`,
        server: agents.serverVersion,
        durability: durabilityOf(options),
        rows: FLOODS_PER_SECOND.map((rate) => row(rate, found)),
        raw: found.map(({ rate, answers }) => ({ rate, answers: Object.fromEntries(answers) })),
        notes: ["The sender and the broker share the cores with what is measured."],
      };
    } finally {
      await agents.stop();
    }
  },
};

async function measure(agents: RunningAgents, rate: number, ms: number): Promise<Measured> {
  const connections = new Connections({ keepAlive: true, maxSockets: CONNECTIONS });
  const answers = new Map<number, number>();
  try {
    for (let n = 0; n < NEIGHBOURS; n += 1) await ask(agents, connections, `neighbour-${n}`);
    const quietMs = await probe(agents, connections, performance.now() + ms);
    const endMs = performance.now() + ms;
    const flooding = sendAt(rate, endMs, async () => {
      const status = await ask(agents, connections, "flooded");
      answers.set(status, (answers.get(status) ?? 0) + 1);
    });
    const floodMs = await probe(agents, connections, endMs);
    await flooding;
    return { rate, quietMs, floodMs, answers };
  } finally {
    connections.destroy();
  }
}

/** Sends by the clock, whether or not there are answers. Resolves when all are answered. */
async function sendAt(rate: number, endMs: number, send: () => Promise<void>): Promise<void> {
  const all: Array<Promise<void>> = [];
  const startMs = performance.now();
  for (let nowMs = startMs; nowMs < endMs; nowMs = performance.now()) {
    const due = ((nowMs - startMs) * rate) / 1000;
    while (all.length < due) all.push(send());
    await sleep(BURST_MS);
  }
  await Promise.all(all);
}

/** Resolves with the status of the answer. */
function ask(agents: RunningAgents, connections: Connections, name: string): Promise<number> {
  return new Promise((resolve, reject) => {
    const asked = request(`${agents.url}/agents/counter/${name}`, {
      agent: name === "flooded" ? connections : undefined,
      method: "POST",
    });
    asked.once("error", reject);
    asked.once("response", (response) => {
      response.resume();
      response.once("end", () => resolve(response.statusCode ?? 0));
    });
    asked.end();
  });
}

/** What each neighbour in turn waited for its answer. */
async function probe(
  agents: RunningAgents,
  connections: Connections,
  endMs: number,
): Promise<number[]> {
  const waits: number[] = [];
  for (let n = 0; performance.now() < endMs; n = (n + 1) % NEIGHBOURS) {
    const startMs = performance.now();
    const status = await ask(agents, connections, `neighbour-${n}`);
    if (status !== 200) throw new BenchFailed(`a neighbour was answered ${status}`);
    waits.push(performance.now() - startMs);
    await sleep(PROBE_EVERY_MS);
  }
  return waits;
}

function row(rate: number, all: ReadonlyArray<Measured>): BenchRow {
  const own = all.filter((one) => one.rate === rate);
  const of = (value: (one: Measured) => number): number => median(own.map(value));
  const quiet = of(({ quietMs }) => percentile(quietMs, 99));
  const flooded = of(({ floodMs }) => percentile(floodMs, 99));
  return {
    name: `${rate.toLocaleString("en")}/s to one agent`,
    values: {
      "quiet p50 ms": of(({ quietMs }) => median(quietMs)),
      "quiet p99 ms": quiet,
      "flood p50 ms": of(({ floodMs }) => median(floodMs)),
      "flood p99 ms": flooded,
      "p99 ratio": flooded / quiet,
      "answered 200": of(({ answers }) => answers.get(200) ?? 0),
      "refused 429": of(({ answers }) => answers.get(429) ?? 0),
    },
  };
}
