/**
 * Bytes for each agent in memory (with a state only; with SQLite too), for each that hibernates,
 * and for each socket: the growth of `agents dev` with many of them, after a garbage collection.
 * Includes the gateway.
 */
import { fileURLToPath } from "node:url";
import { pollUntil } from "../kit/poll.ts";
import { BenchFailed, type Bench, type BenchRow } from "./Bench.ts";
import { durabilityOf } from "./rig/BenchHost.ts";
import type { Held } from "./agents/memoryAgents.ts";
import { SocketLoad } from "./rig/SocketLoad.ts";
import { inParallel } from "../../services/cli/agents/inParallel.ts";
import { startAgents, type RunningAgents } from "./rig/startAgents.ts";
import { median } from "./rig/statistics.ts";

const MODULE = fileURLToPath(new URL("./agents/memoryAgents.ts", import.meta.url));
/** Requests under way. */
const ASKING_AT_ONCE = 32;
/** For a host that hibernates thousands of agents on a busy machine. */
const ASLEEP_TIMEOUT_MS = 120_000;
/** To less than this share from one look to the next: below, it is noise. */
const SHRUNK = 0.998;
/** 3 s at two looks a second: longer than any of our timers for an answered request. */
const SETTLED_LOOKS = 6;
const SETTLED_TIMEOUT_MS = 60_000;
/** The frames that we send to a new socket: identity, state, MCP servers. */
const OUR_FRAMES = 3;

interface Kind {
  readonly name: string;
  /** In one batch; a first batch is made and not counted, so that caches and code are there. */
  readonly count: number;
  readonly wantedBytes: number;
  readonly add: (agents: RunningAgents, batch: number) => Promise<void>;
}

/** `opened` gets the clients' processes, to be stopped at the end. */
const kindsOf = (opened: SocketLoad[]): ReadonlyArray<Kind> => [
  { name: "agent, state only", count: 5_000, wantedBytes: 6_000, add: touch("plain", 5_000) },
  { name: "agent, state and SQLite", count: 500, wantedBytes: 120_000, add: touch("stored", 500) },
  { name: "agent that hibernates", count: 5_000, wantedBytes: 0, add: sleep(5_000) },
  { name: "socket", count: 3_000, wantedBytes: 4_000, add: openSockets(3_000, opened) },
];

interface Measured {
  readonly kind: string;
  readonly ownBytes: number;
  readonly rssBytes: number;
}

export const memory: Bench = {
  name: "memory",
  about: 'bytes an agent in memory, an agent that hibernates, a socket (--form "socket", …)',
  run: async (options) => {
    const { syncAlways, rounds, say } = options;
    const agents = await startAgents({
      module: MODULE,
      hosts: 0,
      syncAlways,
      nodeArgs: ["--expose-gc"],
    });
    const found: Measured[] = [];
    const opened: SocketLoad[] = [];
    const kinds = kindsOf(opened).filter(
      ({ name }) => options.forms.length === 0 || options.forms.includes(name),
    );
    try {
      for (const { name, count, add } of kinds) {
        await add(agents, 0);
        let before = await held(agents);
        for (let batch = 1; batch <= rounds; batch += 1) {
          await add(agents, batch);
          const after = await held(agents);
          const ownBytes = (after.ownBytes - before.ownBytes) / count;
          const rssBytes = (after.rssBytes - before.rssBytes) / count;
          say(`  ${name}: ${Math.round(ownBytes)} bytes each, resident ${Math.round(rssBytes)}`);
          found.push({ kind: name, ownBytes, rssBytes });
          before = after;
        }
      }
      return {
        title: `bytes each, by the growth of one process; ${rounds} batches, medians`,
        server: agents.serverVersion,
        durability: durabilityOf(options),
        rows: kinds.map((kind) => row(kind, found)),
        raw: found,
        notes: [
          "own: heap and external memory after a collection. resident: RSS, which also holds what the allocator keeps.",
        ],
      };
    } finally {
      for (const load of opened) await load.stop();
      await agents.stop();
    }
  },
};

/** The memory in use once it has stopped shrinking: last requests' buffers are freed late. */
async function held(agents: RunningAgents): Promise<Held> {
  let least: Held | undefined;
  let looksWithout = 0;
  return pollUntil(
    "memory has settled",
    async () => {
      const now = (await (await fetch(`${agents.url}/held`)).json()) as Held;
      const shrunk = least !== undefined && now.ownBytes < least.ownBytes * SHRUNK;
      looksWithout = shrunk ? 0 : looksWithout + 1;
      if (least === undefined || now.ownBytes < least.ownBytes) least = now;
      return looksWithout > SETTLED_LOOKS
        ? { done: true, value: least }
        : { done: false, saw: now };
    },
    { timeoutMs: SETTLED_TIMEOUT_MS, intervalMs: 500 },
  );
}

async function ask(agents: RunningAgents, path: string): Promise<void> {
  const response = await fetch(`${agents.url}/agents/${path}`);
  const text = await response.text();
  if (text !== "OK") throw new BenchFailed(`${path}: ${response.status} ${text}`);
}

function touch(kind: string, count: number): Kind["add"] {
  return async (agents, batch) => {
    const paths = Array.from({ length: count }, (_, n) => `${kind}/b${batch}-${n}`);
    await inParallel(paths, ASKING_AT_ONCE, (path) => ask(agents, path));
  };
}

function sleep(count: number): Kind["add"] {
  return async (agents, batch) => {
    const awake = await agents.metric("agents_active");
    await touch("sleeper", count)(agents, batch);
    await pollUntil(
      "all are asleep",
      async () => {
        const active = await agents.metric("agents_active");
        return active <= awake || { done: false, saw: `${active - awake} are awake` };
      },
      { timeoutMs: ASLEEP_TIMEOUT_MS, intervalMs: 200 },
    );
  };
}

/** All of them of one agent: an agent is counted elsewhere. */
function openSockets(count: number, opened: SocketLoad[]): Kind["add"] {
  return async (agents, batch) => {
    const load = new SocketLoad();
    opened.push(load);
    const paths = [`/agents/plain/socketed-${batch}`];
    await load.open({ port: agents.port, paths, socketsEach: count, readyFrames: OUR_FRAMES });
  };
}

function row({ name, wantedBytes }: Kind, all: ReadonlyArray<Measured>): BenchRow {
  const own = all.filter(({ kind }) => kind === name);
  return {
    name,
    values: {
      "own bytes": median(own.map(({ ownBytes }) => ownBytes)),
      "resident bytes": median(own.map(({ rssBytes }) => rssBytes)),
      wanted: wantedBytes,
    },
  };
}
