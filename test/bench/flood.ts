/**
 * One agent receives requests at a fixed rate, answered or not; measures how long unrelated
 * neighbours wait for their answers meanwhile. Compared, in turn, with no other requests, and with
 * the same rate spread over many agents, which distinguishes the flood of one from mere load.
 */
import { fileURLToPath } from "node:url";
import { setTimeout as sleep } from "node:timers/promises";
import { BenchFailed, type Bench, type BenchOptions, type BenchRow } from "./Bench.ts";
import { durabilityOf } from "./rig/BenchHost.ts";
import { startFlood, type FloodAnswers } from "./rig/FloodSender.ts";
import { startAgents, type RunningAgents } from "./rig/startAgents.ts";
import { median, percentile } from "./rig/statistics.ts";

const MODULE = fileURLToPath(new URL("./agents/floodAgents.ts", import.meta.url));
const NEIGHBOURS = 40;
const PROBE_EVERY_MS = 5;
const RATES = [200, 1_000, 3_000] as const;
const SPREAD_OVER = 1_000;
const CONDITIONS = ["quiet", "spread", "flood"] as const;
type Condition = (typeof CONDITIONS)[number];

interface Measured {
  readonly rate: number;
  readonly condition: Condition;
  readonly waitsMs: ReadonlyArray<number>;
  readonly answers: FloodAnswers;
}

export const flood: Bench = {
  name: "flood",
  about: "one agent that is sent 200 to 3,000 requests a second: what its neighbours wait",
  run: async (options) => {
    const { syncAlways, profile } = options;
    const agents = await startAgents({ module: MODULE, hosts: 0, syncAlways, profile });
    try {
      // Activates all agents, and lets V8 compile the measured code.
      for (const condition of CONDITIONS)
        await measure(agents, { rate: 1_000, condition, ms: 2_000 });
      const found: Measured[] = [];
      for (let round = 0; round < options.rounds; round += 1)
        for (const rate of RATES) found.push(...(await measureRate(agents, rate, round, options)));
      return {
        title: `${options.rounds} × ${options.seconds} s each, medians; ${NEIGHBOURS} neighbours, a state write each ${PROBE_EVERY_MS} ms`,
        server: agents.serverVersion,
        durability: durabilityOf(options),
        rows: RATES.map((rate) => row(rate, found)),
        raw: found.map(({ rate, condition, answers }) => ({ rate, condition, answers })),
        notes: ["The sender and the broker share the cores with what is measured."],
      };
    } finally {
      await agents.stop();
    }
  },
};

/** The conditions in turn, backwards in every other round. */
async function measureRate(
  agents: RunningAgents,
  rate: number,
  round: number,
  { seconds, say }: BenchOptions,
): Promise<ReadonlyArray<Measured>> {
  const found: Measured[] = [];
  for (const condition of round % 2 === 0 ? CONDITIONS : CONDITIONS.toReversed())
    found.push(await measure(agents, { rate, condition, ms: seconds * 1000 }));
  const p99 = found.map(
    ({ condition, waitsMs }) => `${condition} ${percentile(waitsMs, 99).toFixed(1)}`,
  );
  say(`  ${rate}/s: p99 in ms: ${p99.join(", ")}`);
  return found;
}

async function measure(
  agents: RunningAgents,
  {
    rate,
    condition,
    ms,
  }: { readonly rate: number; readonly condition: Condition; readonly ms: number },
): Promise<Measured> {
  if (condition === "quiet")
    return { rate, condition, waitsMs: await probe(agents, ms), answers: {} };
  const names =
    condition === "flood"
      ? ["flooded"]
      : Array.from({ length: SPREAD_OVER }, (_, n) => `one-of-many-${n}`);
  const requests = names.map(
    (name) =>
      `POST ${pathOf(name)} HTTP/1.1\r\nhost: 127.0.0.1:${agents.port}\r\ncontent-length: 0\r\n\r\n`,
  );
  const stop = await startFlood({ port: agents.port, requestsPerSecond: rate, requests });
  const waitsMs = await probe(agents, ms);
  const answers = await stop();
  const other = Object.keys(answers).find((status) => !["0", "200", "429"].includes(status));
  if (other !== undefined) throw new BenchFailed(`the flood was answered ${other}`);
  return { rate, condition, waitsMs, answers };
}

const pathOf = (name: string): string => `/agents/counter/${name}`;

/** How long each neighbour in turn waited for its answer. */
async function probe(agents: RunningAgents, ms: number): Promise<number[]> {
  const endMs = performance.now() + ms;
  const waits: number[] = [];
  for (let n = 0; performance.now() < endMs; n = (n + 1) % NEIGHBOURS) {
    const startMs = performance.now();
    const response = await fetch(`${agents.url}${pathOf(`neighbour-${n}`)}`, { method: "POST" });
    await response.arrayBuffer();
    if (response.status !== 200)
      throw new BenchFailed(`a neighbour was answered ${response.status}`);
    waits.push(performance.now() - startMs);
    await sleep(PROBE_EVERY_MS);
  }
  return waits;
}

function row(rate: number, all: ReadonlyArray<Measured>): BenchRow {
  const p = (condition: Condition, percent: number): number =>
    median(
      all
        .filter((one) => one.rate === rate && one.condition === condition)
        .map(({ waitsMs }) => percentile(waitsMs, percent)),
    );
  const answered = (status: string): number =>
    median(
      all
        .filter((one) => one.rate === rate && one.condition === "flood")
        .map(({ answers }) => answers[status] ?? 0),
    );
  return {
    name: `${rate.toLocaleString("en")}/s to one agent`,
    values: {
      "quiet p50 ms": p("quiet", 50),
      "spread p50 ms": p("spread", 50),
      "flood p50 ms": p("flood", 50),
      "quiet p99 ms": p("quiet", 99),
      "spread p99 ms": p("spread", 99),
      "flood p99 ms": p("flood", 99),
      "p99 of quiet": p("flood", 99) / p("quiet", 99),
      "p99 of spread": p("flood", 99) / p("spread", 99),
      "answered 200": answered("200"),
      "refused 429": answered("429"),
      "not sent": answered("0"),
    },
  };
}
