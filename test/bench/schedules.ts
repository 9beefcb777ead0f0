/**
 * Schedules while 10,000 and 100,000 (`--form million`: also 1,000,000) others are pending: how
 * fast they are armed, how late they run when 200 fall due each second, and how fast 10,000 run
 * that fall due at one instant. Compared with raw scheduled messages on the same broker version,
 * which run nothing and write nothing.
 */
import { fileURLToPath } from "node:url";
import { pollUntil } from "../kit/poll.ts";
import type { Plan, Rung } from "./agents/alarmAgents.ts";
import { BenchFailed, type Bench, type BenchOptions, type BenchRow } from "./Bench.ts";
import { durabilityOf } from "./rig/BenchHost.ts";
import { inParallel } from "../../services/cli/agents/inParallel.ts";
import { startRaw } from "./rawSchedules.ts";
import { startAgents } from "./rig/startAgents.ts";
import { median, percentile } from "./rig/statistics.ts";

const MODULE = fileURLToPath(new URL("./agents/alarmAgents.ts", import.meta.url));
const LEVELS = [10_000, 100_000];
/** A form of its own: arming takes a quarter of an hour. */
const MILLION = 1_000_000;
/** Schedules of one agent. */
const EACH = 10;
/** Due within a round, by themselves over a window. */
const FIRED = 2_000;
/** Schedules due at one instant: half a second of them, so that the rate exceeds its noise. */
const AT_ONCE = 10_000;
const WINDOW_MS = 10_000;
/** From arming to the first due: so many are armed in less, on a busy machine too. */
const AHEAD_MS = 12_000;
/** The pending ones are due long after the bench. */
const FAR_MS = 24 * 3600_000;
/** Requests under way. */
const ASKING_AT_ONCE = 32;
const FIRED_TIMEOUT_MS = 60_000;

/** A measured scheduler: ours, or raw messages. */
export interface Alarms {
  readonly name: string;
  readonly server: string;
  readonly arm: (dueMs: ReadonlyArray<number>) => Promise<void>;
  /** Resolves when so many have run since the last time it was asked. */
  readonly rung: (count: number) => Promise<Rung>;
  readonly stop: () => Promise<void>;
}

interface Measured {
  readonly name: string;
  readonly pending: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
  readonly mostMs: number;
  readonly earlyMs: number;
  /** The rate of those that were due at one instant. */
  readonly firedPerSecond: number;
}

export const schedules: Bench = {
  name: "schedules",
  about:
    'armed, fired, and how late, with 10,000 and 100,000 pending (--form "million": 1,000,000 too); beside raw scheduled messages',
  run: async (options) => {
    const sides: Alarms[] = [];
    const found: Measured[] = [];
    const armed = new Map<string, number>();
    const levels = options.forms.includes("million") ? [...LEVELS, MILLION] : LEVELS;
    try {
      sides.push(await startRaw(options.syncAlways), await startOurs(options));
      // Classes are loaded, code is compiled.
      for (const side of sides) await fire(side, 0);
      let pending = 0;
      for (const level of levels) {
        for (const side of sides) {
          const startMs = performance.now();
          const dues = Array.from({ length: level - pending }, (_, n) => Date.now() + FAR_MS + n);
          await side.arm(dues);
          const perSecond = (dues.length * 1000) / (performance.now() - startMs);
          options.say(`  ${side.name}: ${level} pending, ${Math.round(perSecond)} armed/s`);
          armed.set(`${level} ${side.name}`, perSecond);
        }
        pending = level;
        for (let round = 0; round < options.rounds; round += 1)
          for (const side of round % 2 === 0 ? sides : sides.toReversed()) {
            const fired = await fire(side, level);
            options.say(
              `  ${side.name}: late by ${fired.p50Ms} ms, ${Math.round(fired.p99Ms)} ms (p99); ${Math.round(fired.firedPerSecond)} fired/s`,
            );
            found.push(fired);
          }
      }
      return {
        title: `${FIRED} due over ${WINDOW_MS / 1000} s, then ${AT_ONCE} at one instant; ${options.rounds} rounds, medians`,
        server: sides[0]!.server,
        durability: durabilityOf(options),
        rows: levels.flatMap((level) => sides.map(({ name }) => row(level, name, found, armed))),
        raw: { found, armed: Object.fromEntries(armed) },
        notes: [
          `Ours: ${EACH} schedules an agent, armed in one commit; a run is a turn with its event. Raw: a message a schedule, taken and acked.`,
          "ratio: of fired/s, to raw.",
        ],
      };
    } finally {
      for (const side of sides) await side.stop();
    }
  },
};

async function fire(side: Alarms, pending: number): Promise<Measured> {
  const firstMs = Date.now() + AHEAD_MS;
  await side.arm(
    Array.from({ length: FIRED }, (_, n) => firstMs + Math.floor((n * WINDOW_MS) / FIRED)),
  );
  const { lateMs } = await side.rung(FIRED);
  const instantMs = Date.now() + AHEAD_MS;
  await side.arm(Array.from({ length: AT_ONCE }, () => instantMs));
  if (Date.now() > instantMs) throw new BenchFailed("arming took too long for this bench");
  const { lastMs } = await side.rung(AT_ONCE);
  return {
    name: side.name,
    pending,
    p50Ms: median(lateMs),
    p99Ms: percentile(lateMs, 99),
    mostMs: Math.max(...lateMs),
    earlyMs: Math.max(0, -Math.min(...lateMs)),
    firedPerSecond: (AT_ONCE * 1000) / (lastMs - instantMs),
  };
}

async function startOurs({ syncAlways, profile }: BenchOptions): Promise<Alarms> {
  const agents = await startAgents({ module: MODULE, hosts: 0, syncAlways, profile });
  let made = 0;
  /** Agents that have something due soon: those that the last `arm` made. */
  let asked: number[] = [];
  const ask = async (agent: number, init?: RequestInit): Promise<Rung> => {
    const response = await fetch(`${agents.url}/agents/alarm/alarm-${agent}`, init);
    const text = await response.text();
    if (!response.ok) throw new BenchFailed(`${response.status} ${text}`);
    return JSON.parse(text) as Rung;
  };
  const each = async <A>(names: ReadonlyArray<number>, f: (name: number) => Promise<A>) => {
    const found: A[] = [];
    await inParallel(names, ASKING_AT_ONCE, async (name) => void found.push(await f(name)));
    return found;
  };
  return {
    name: "ours",
    server: agents.serverVersion,
    arm: async (dueMs) => {
      const first = made;
      made += Math.ceil(dueMs.length / EACH);
      asked = Array.from({ length: made - first }, (_, n) => first + n);
      await each(asked, (agent) => {
        // Spread over the whole window.
        const own = Array.from(
          { length: EACH },
          (_, n) => dueMs[agent - first + n * asked.length]!,
        );
        return ask(agent, { method: "POST", body: JSON.stringify({ dueMs: own } satisfies Plan) });
      });
    },
    rung: async (count) => {
      const lateMs: number[] = [];
      let lastMs = 0;
      await pollUntil(
        "all have run",
        async () => {
          for (const rung of await each(asked, (agent) => ask(agent))) {
            lateMs.push(...rung.lateMs);
            lastMs = Math.max(lastMs, rung.lastMs);
          }
          return lateMs.length >= count || { done: false, saw: `${lateMs.length} of ${count}` };
        },
        // Seldom: asking takes from the same processor.
        { timeoutMs: FIRED_TIMEOUT_MS, intervalMs: 2_000 },
      );
      return { lateMs, lastMs };
    },
    stop: () => agents.stop(),
  };
}

function row(
  pending: number,
  name: string,
  all: ReadonlyArray<Measured>,
  armed: ReadonlyMap<string, number>,
): BenchRow {
  const of = (side: string, value: (run: Measured) => number): number =>
    median(all.filter((run) => run.name === side && run.pending === pending).map(value));
  const fired = of(name, (run) => run.firedPerSecond);
  return {
    name: `${pending.toLocaleString("en")} pending, ${name}`,
    values: {
      "armed/s": armed.get(`${pending} ${name}`),
      "fired/s": fired,
      ratio: fired / of("raw", (run) => run.firedPerSecond),
      "late p50 ms": of(name, (run) => run.p50Ms),
      "late p99 ms": of(name, (run) => run.p99Ms),
      "most ms": of(name, (run) => run.mostMs),
      "early ms": of(name, (run) => run.earlyMs),
    },
  };
}
