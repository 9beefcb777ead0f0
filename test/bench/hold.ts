/** One agent's turn never ends: how long its neighbours wait, compared with a turn's limit. */
import { fileURLToPath } from "node:url";
import { setTimeout as sleep } from "node:timers/promises";
import type { Bench, BenchRow } from "./Bench.ts";
import { durabilityOf } from "./rig/BenchHost.ts";
import { startAgents } from "./rig/startAgents.ts";
import { median } from "./rig/statistics.ts";

const MODULE = fileURLToPath(new URL("./agents/floodAgents.ts", import.meta.url));
const NEIGHBOURS = 40;
const ASK_EVERY_MS = 100;
/** The default of `cpuSeconds`. */
const LIMIT_S = 5;
/** Until neighbours have their answers again, on a slow machine too. */
const WATCH_MS = 20_000;
/** A longer wait is the holder's doing. */
const HELD_MS = 1_000;
const WORKERS = [1, 2] as const;

interface Held {
  readonly workers: number;
  /** Each neighbour's longest wait. */
  readonly waitsMs: ReadonlyArray<number>;
  readonly refused: number;
}

export const hold: Bench = {
  name: "hold",
  about: "one agent whose turn never ends: for how long its neighbours are without an answer",
  run: async (options) => {
    const found: Held[] = [];
    let server = "";
    for (let round = 0; round < options.rounds; round += 1)
      for (const workers of WORKERS) {
        const { held, version } = await measure(workers, options.syncAlways);
        server = version;
        options.say(
          `  ${workers} worker(s): longest wait ${(Math.max(...held.waitsMs) / 1000).toFixed(2)} s`,
        );
        found.push(held);
      }
    return {
      title: `${options.rounds} × one turn that never ends; ${NEIGHBOURS} neighbours, each asked every ${ASK_EVERY_MS} ms`,
      server,
      durability: durabilityOf(options),
      rows: WORKERS.map((workers) => row(workers, found)),
      raw: found,
      notes: ["A gateway of its own, so that its sockets are not part of it."],
    };
  },
};

async function measure(
  workers: number,
  syncAlways: boolean,
): Promise<{ readonly held: Held; readonly version: string }> {
  const hostArgs = ["--workers", String(workers)];
  const agents = await startAgents({ module: MODULE, hosts: 1, hostArgs, syncAlways });
  try {
    const waitsMs = Array.from({ length: NEIGHBOURS }, () => 0);
    let refused = 0;
    const ask = async (n: number): Promise<number> => {
      const startMs = performance.now();
      const url = `${agents.url}/agents/counter/neighbour-${n}`;
      const { status } = await fetch(url, { method: "POST" });
      if (status !== 200) refused += 1;
      return performance.now() - startMs;
    };
    const names = waitsMs.map((_, n) => n);
    await Promise.all(names.map(ask));
    const endMs = performance.now() + WATCH_MS;
    // It is answered when its attempt is dead, or never.
    const holder = fetch(`${agents.url}/agents/holder/one`, { method: "POST" }).catch(() => null);
    await Promise.all(
      names.map(async (n) => {
        while (performance.now() < endMs) {
          waitsMs[n] = Math.max(waitsMs[n]!, await ask(n));
          await sleep(ASK_EVERY_MS);
        }
      }),
    );
    await holder;
    return { held: { workers, waitsMs, refused }, version: agents.serverVersion };
  } finally {
    await agents.stop();
  }
}

function row(workers: number, all: ReadonlyArray<Held>): BenchRow {
  const own = all.filter((one) => one.workers === workers);
  const of = (value: (one: Held) => number): number => median(own.map(value));
  const longestS = of(({ waitsMs }) => Math.max(...waitsMs)) / 1000;
  return {
    name: workers === 1 ? "1 worker" : `${workers} workers`,
    values: {
      "longest wait s": longestS,
      "past the limit s": longestS - LIMIT_S,
      "neighbours that waited": of(({ waitsMs }) => waitsMs.filter((ms) => ms > HELD_MS).length),
      "not answered 200": of(({ refused }) => refused),
    },
  };
}
