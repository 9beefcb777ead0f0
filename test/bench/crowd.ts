/** Midnight: thousands of schedules due at one instant; how long a neighbour waits meanwhile. */
import { fileURLToPath } from "node:url";
import { setTimeout as sleep } from "node:timers/promises";
import { pollUntil } from "../kit/poll.ts";
import { BenchFailed, type Bench, type BenchRow } from "./Bench.ts";
import { durabilityOf } from "./rig/BenchHost.ts";
import type { Crowd } from "./agents/crowdAgents.ts";
import { inParallel } from "../../services/cli/agents/inParallel.ts";
import { startAgents, type RunningAgents } from "./rig/startAgents.ts";
import { median, percentile } from "./rig/statistics.ts";

const MODULE = fileURLToPath(new URL("./agents/crowdAgents.ts", import.meta.url));
const KINDS = [
  { name: "in memory", path: "awake", agents: 4_000, each: 10 },
  { name: "asleep", path: "asleep", agents: 10_000, each: 1 },
] as const;
/** Requests under way while schedules are made. */
const ASKING_AT_ONCE = 32;
/** Time to make an agent on a busy machine, after which the crowd is due and sleepers sleep. */
const MAKING_MS = 5;
const ASLEEP_TIMEOUT_MS = 60_000;
const QUIET_MS = 3_000;
const PROBE_EVERY_MS = 10;
const DONE_TIMEOUT_MS = 120_000;

interface Measured {
  readonly kind: string;
  readonly quietMs: ReadonlyArray<number>;
  readonly crowdMs: ReadonlyArray<number>;
  /** From the due instant to the end of the last run. */
  readonly doneMs: number;
  /** Agents that woke though they had not left: a host that is held up loses its leases. */
  readonly wokenAgain: number;
}

type Kind = (typeof KINDS)[number];

export const crowd: Bench = {
  name: "crowd",
  about: "thousands of schedules due at one instant: what a neighbour waits meanwhile",
  run: async (options) => {
    const kinds = KINDS.filter(
      ({ name }) => options.forms.length === 0 || options.forms.includes(name),
    );
    const found: Measured[] = [];
    let server = "";
    for (let round = 0; round < options.rounds; round += 1)
      for (const kind of round % 2 === 0 ? kinds : kinds.toReversed()) {
        const { syncAlways, profile } = options;
        const agents = await startAgents({ module: MODULE, hosts: 0, syncAlways, profile });
        server = agents.serverVersion;
        try {
          const measured = await measure(agents, kind);
          options.say(
            `  ${kind.name}: a neighbour waits at most ${Math.round(Math.max(...measured.crowdMs))} ms; done after ${Math.round(measured.doneMs)} ms`,
          );
          found.push(measured);
        } finally {
          await agents.stop();
        }
      }
    return {
      title: `${options.rounds} rounds, medians; a request every ${PROBE_EVERY_MS} ms, one after another`,
      server,
      durability: durabilityOf(options),
      rows: kinds.map((kind) => row(kind, found)),
      raw: found.map(({ kind, doneMs, wokenAgain }) => ({ kind, doneMs, wokenAgain })),
      notes: KINDS.map(
        ({ name, agents, each }) =>
          `${name}: ${agents} agents with ${each} each, all at one instant.`,
      ),
    };
  },
};

async function measure(agents: RunningAgents, kind: Kind): Promise<Measured> {
  const dueMs = Date.now() + kind.agents * MAKING_MS + QUIET_MS;
  const names = Array.from({ length: kind.agents }, (_, n) => `${kind.path}/c-${n}`);
  await inParallel(names, ASKING_AT_ONCE, (name) => ask(agents, name, { dueMs, each: kind.each }));
  const activations = (): Promise<number> => agents.metric("agents_activations_total");
  if (kind.path === "asleep")
    await pollUntil(
      "all sleep",
      async () => {
        const awake = await agents.metric("agents_active");
        return awake === 0 || { done: false, saw: awake };
      },
      { timeoutMs: ASLEEP_TIMEOUT_MS },
    );
  // The neighbour, and the code on its way.
  await ask(agents, "awake/neighbour");
  const before = await activations();
  await sleep(Math.max(0, dueMs - QUIET_MS - Date.now()));
  if (Date.now() > dueMs - QUIET_MS / 2) throw new BenchFailed("making the crowd took too long");
  const quietMs = await probe(agents, () => Date.now() < dueMs);
  let last: Crowd = { ran: 0, lastMs: 0 };
  const all = kind.agents * kind.each;
  const done = (async () => {
    await pollUntil(
      "all have run",
      async () => {
        last = (await (await fetch(`${agents.url}/crowd`)).json()) as Crowd;
        return last.ran >= all || { done: false, saw: last.ran };
      },
      { timeoutMs: DONE_TIMEOUT_MS, intervalMs: 200 },
    );
  })();
  let over = false;
  const finished = done.finally(() => (over = true));
  const crowdMs = await probe(agents, () => !over);
  await finished;
  if (last.ran !== all) throw new BenchFailed(`${last.ran} runs of ${all}: some ran twice`);
  const woken = (await activations()) - before;
  return {
    kind: kind.name,
    quietMs,
    crowdMs,
    doneMs: last.lastMs - dueMs,
    wokenAgain: woken - (kind.path === "asleep" ? kind.agents : 0),
  };
}

async function ask(agents: RunningAgents, name: string, plan?: object): Promise<void> {
  const response = await fetch(
    `${agents.url}/agents/${name}`,
    plan === undefined ? {} : { method: "POST", body: JSON.stringify(plan) },
  );
  const text = await response.text();
  if (!response.ok) throw new BenchFailed(`${response.status} ${text}`);
}

async function probe(agents: RunningAgents, goesOn: () => boolean): Promise<number[]> {
  const waits: number[] = [];
  do {
    const startMs = performance.now();
    await ask(agents, "awake/neighbour");
    waits.push(performance.now() - startMs);
    await sleep(PROBE_EVERY_MS);
  } while (goesOn());
  return waits;
}

function row(kind: Kind, all: ReadonlyArray<Measured>): BenchRow {
  const own = all.filter((one) => one.kind === kind.name);
  const of = (value: (one: Measured) => number): number => median(own.map(value));
  return {
    name: `${(kind.agents * kind.each).toLocaleString("en")}, ${kind.name}`,
    values: {
      "quiet p99 ms": of(({ quietMs }) => percentile(quietMs, 99)),
      "quiet most ms": of(({ quietMs }) => Math.max(...quietMs)),
      "crowd p50 ms": of(({ crowdMs }) => median(crowdMs)),
      "crowd p99 ms": of(({ crowdMs }) => percentile(crowdMs, 99)),
      "crowd most ms": of(({ crowdMs }) => Math.max(...crowdMs)),
      "done ms": of(({ doneMs }) => doneMs),
      "woken again": Math.max(...own.map(({ wokenAgain }) => wokenAgain)),
    },
  };
}
