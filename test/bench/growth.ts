/**
 * Costs that must stay flat as an installation grows, each compared with its value when it was
 * small: a turn's commit and an activation, with 1,000 to 1,000,000 agents known; with 10 to
 * 100,000 events in the agent's journal; with 1 MB to 1 GB in its database. And the number that
 * should grow while there are cores: changes a second with more hosts and gateways.
 */
import { fileURLToPath } from "node:url";
import type { ActiveAgent } from "../../core/runtime/ActiveAgent.ts";
import { BenchFailed, type Bench, type BenchOptions, type BenchRow } from "./Bench.ts";
import { agentNamed, BODY, durabilityOf, openBenchHost, type BenchHost } from "./rig/BenchHost.ts";
import { SocketLoad } from "./rig/SocketLoad.ts";
import { startAgents } from "./rig/startAgents.ts";
import { median, percentile } from "./rig/statistics.ts";

const MODULE = fileURLToPath(new URL("./agents/socketAgents.ts", import.meta.url));
const KNOWN = [1_000, 100_000, 1_000_000];
const EVENTS = [10, 1_000, 10_000, 100_000];
/** The last is nearly all that a database may hold. */
const MEGABYTES = [1, 16, 256, 1_000];
const FLEETS = [
  { hosts: 1, gateways: 1 },
  { hosts: 2, gateways: 1 },
  { hosts: 4, gateways: 1 },
  { hosts: 4, gateways: 4 },
];
/** The size of one insert: well under the payload limit, so that no event needs a blob. */
const BALLAST_BYTES = 256 * 1024;
/** Events that an activation replays after the snapshot. */
const EVENTS_AFTER = 5;
/** Agents of the first form that are real and woken; the others are known by a message each. */
const REAL = 200;
/** Samples of each measurement, for each round asked for. */
const SAMPLES_PER_ROUND = 100;
/** Compiled code, warm caches. */
const WARM_UP_SAMPLES = 100;
const STORING_AT_ONCE = 512; // as many as keep the broker busy
/** The frames that we send to a new socket: identity, state, MCP servers. */
const OUR_FRAMES = 3;
/** With a client each; 64 changes are under way. */
const BOARDS = 500;
const CHANGES_AT_ONCE = 64;
const WARM_UP_SECONDS = 3;

interface Point {
  readonly name: string;
  readonly commitMs?: ReadonlyArray<number>;
  readonly wakeMs?: ReadonlyArray<number>;
  readonly changesPerSecond?: number;
  readonly nodeUs?: number;
}

type Form = (
  options: BenchOptions,
) => Promise<{ readonly server: string; readonly points: Point[] }>;

export const growth: Bench = {
  name: "growth",
  about:
    'agents known, events, megabytes, hosts; against itself (--form "known", "events", "megabytes", "hosts")',
  run: async (options) => {
    const rows: BenchRow[] = [];
    const raw: Point[] = [];
    let server = "";
    for (const [name, form] of Object.entries(FORMS)) {
      if (options.forms.length > 0 && !options.forms.includes(name)) continue;
      const found = await form(options);
      server = found.server;
      raw.push(...found.points);
      rows.push(...found.points.map((point) => row(point, found.points[0]!)));
    }
    return {
      title: `one turn's commit, and a wake in memory; ${options.rounds * SAMPLES_PER_ROUND} each, one at a time`,
      server,
      durability: durabilityOf(options),
      rows,
      raw,
      notes: [
        `ratio: to the first row of its kind. Known: a wake replays one turn; events: from a snapshot and ${EVENTS_AFTER} events after it.`,
      ],
    };
  },
};

const known: Form = (options) =>
  withHost(options, async (host) => {
    const points: Point[] = [];
    for (let n = 0; n < REAL; n += 1) (await host.write(`real${n}`, 1)).discard();
    const active = await host.write("active", 1);
    const event = await anyEvent(host);
    let stored = REAL + 1;
    for (const level of KNOWN) {
      options.say(`  ${level} agents known`);
      await storeFillers(host, event, { from: stored, to: level });
      stored = level;
      const [commitMs, wakeMs] = await sampleEach(options, [
        () => host.call(active, "touch", BODY),
        async (n) => (await host.wake(agentNamed(`real${n % REAL}`), inMemory(host))).discard(),
      ]);
      points.push({
        name: `${level.toLocaleString("en")} agents known`,
        commitMs: commitMs!,
        wakeMs: wakeMs!,
      });
    }
    return points;
  });

const events: Form = (options) =>
  withHost(options, async (host) => {
    const agents: ActiveAgent[] = [];
    for (const level of EVENTS) {
      options.say(`  writing ${level} events`);
      const agent = await host.write(`events${level}`, 1);
      while (agent.image.seq < level) await host.call(agent, "touch", BODY);
      await host.services.snapshots.put(agent.id, agent.image.encode(agent.database.image()));
      for (let n = 0; n < EVENTS_AFTER; n += 1) await host.call(agent, "touch", BODY);
      agents.push(agent);
    }
    const wakes = await sampleEach(
      options,
      agents.map((agent) => async () => {
        const woken = await host.wake(agent.id, inMemory(host));
        if (woken.stateText !== agent.stateText)
          throw new BenchFailed(`woke with ${woken.stateText}, not ${agent.stateText}`);
        woken.discard();
      }),
    );
    const commits = await sampleEach(
      options,
      agents.map((agent) => () => host.call(agent, "touch", BODY)),
    );
    return EVENTS.map((level, at) => ({
      name: `${level.toLocaleString("en")} events in the journal`,
      commitMs: commits[at]!,
      wakeMs: wakes[at]!,
    }));
  });

const megabytes: Form = (options) =>
  withHost(options, async (host) => {
    const agents: ActiveAgent[] = [];
    for (const level of MEGABYTES) {
      options.say(`  writing ${level} MB`);
      const agent = await host.write(`megabytes${level}`, 1);
      for (let bytes = 0; bytes < level * 2 ** 20; bytes += BALLAST_BYTES)
        await host.call(agent, "grow", BALLAST_BYTES);
      agents.push(agent);
    }
    const commits = await sampleEach(
      options,
      agents.map((agent) => () => host.call(agent, "touch", BODY)),
    );
    for (const agent of agents) agent.discard();
    return MEGABYTES.map((level, at) => ({
      name: `a database of ${level} MB`,
      commitMs: commits[at]!,
    }));
  });

const hosts: Form = async ({ syncAlways, profile, rounds, seconds, say }) => {
  const sides = [];
  try {
    for (const fleet of FLEETS) {
      const agents = await startAgents({ module: MODULE, ...fleet, syncAlways, profile });
      const load = new SocketLoad();
      const name = `${fleet.hosts} hosts, ${fleet.gateways} gateways`;
      sides.push({ name, agents, load, rates: [] as number[], us: [] as number[] });
      for (const [at, port] of agents.ports.entries()) {
        const paths = Array.from(
          { length: BOARDS / agents.ports.length },
          (_, n) => `/agents/board/board-${at}-${n}`,
        );
        await load.open({ port, paths, socketsEach: 1, readyFrames: OUR_FRAMES });
      }
    }
    const how = { message: "change", depth: 1, groupsAtOnce: CHANGES_AT_ONCE, bytesMin: 0 };
    for (const { load } of sides) await load.run({ ...how, seconds: WARM_UP_SECONDS });
    for (let round = 0; round < rounds; round += 1)
      for (const { name, agents, load, rates, us } of round % 2 === 0
        ? sides
        : sides.toReversed()) {
        const before = agents.nodeSeconds();
        const { perSecond, answered } = await load.run({ ...how, seconds });
        rates.push(perSecond);
        us.push(((agents.nodeSeconds() - before) * 1e6) / answered);
        say(`  ${name}: ${Math.round(perSecond)} changes/s`);
      }
    return {
      server: sides[0]!.agents.serverVersion,
      points: sides.map(({ name, rates, us }) => ({
        name,
        changesPerSecond: median(rates),
        nodeUs: median(us),
      })),
    };
  } finally {
    for (const { agents, load } of sides) {
      await load.stop();
      await agents.stop();
    }
  }
};

const FORMS: Readonly<Record<string, Form>> = { known, events, megabytes, hosts };

async function withHost(
  options: BenchOptions,
  measure: (host: BenchHost) => Promise<Point[]>,
): ReturnType<Form> {
  const host = await openBenchHost(options);
  try {
    return { server: host.serverVersion, points: await measure(host) };
  } finally {
    await host.close();
  }
}

const inMemory = (host: BenchHost): BenchHost["services"] => ({
  ...host.services,
  databases: host.memoryDatabases,
});

/** Samples each way, forwards and backwards in turn: other load affects each alike. */
async function sampleEach(
  { rounds }: BenchOptions,
  ways: ReadonlyArray<(n: number) => Promise<void>>,
): Promise<ReadonlyArray<number[]>> {
  const tookMs = ways.map((): number[] => []);
  for (let n = -WARM_UP_SAMPLES; n < rounds * SAMPLES_PER_ROUND; n += 1)
    for (const at of n % 2 === 0 ? ways.keys() : [...ways.keys()].toReversed()) {
      const startMs = performance.now();
      await ways[at]!(n + WARM_UP_SAMPLES);
      if (n >= 0) tookMs[at]!.push(performance.now() - startMs);
    }
  return tookMs;
}

/** The message of a real agent's event: what fillers are made of. */
async function anyEvent({ nats }: BenchHost): Promise<Uint8Array> {
  const subject = nats.subjects.journal(agentNamed("real0"));
  const found = await nats.reader.direct(nats.subjects.stream.journal, { last_by_subj: subject });
  if (found === undefined) throw new BenchFailed("real0 has no event");
  return found.data;
}

/** One event for each agent that is only to be known: it is never read. */
async function storeFillers(
  { nats }: BenchHost,
  event: Uint8Array,
  { from, to }: { readonly from: number; readonly to: number },
): Promise<void> {
  let next = from;
  const lane = async (): Promise<void> => {
    while (next < to) {
      const subject = nats.subjects.journal(agentNamed(`filler${(next += 1)}`));
      const outcome = await nats.publisher.publish(subject, event);
      if (outcome._tag !== "Stored") throw new BenchFailed(`a filler was not stored`);
    }
  };
  await Promise.all(Array.from({ length: STORING_AT_ONCE }, lane));
}

function row(point: Point, first: Point): BenchRow {
  const { name, commitMs, wakeMs, changesPerSecond, nodeUs } = point;
  return {
    name,
    values: {
      ...(commitMs === undefined
        ? {}
        : {
            "commit p50 ms": median(commitMs),
            "commit p99 ms": percentile(commitMs, 99),
            "commit ratio": median(commitMs) / median(first.commitMs ?? []),
          }),
      ...(wakeMs === undefined
        ? {}
        : {
            "wake p50 ms": median(wakeMs),
            "wake p99 ms": percentile(wakeMs, 99),
            "wake ratio": median(wakeMs) / median(first.wakeMs ?? []),
          }),
      ...(changesPerSecond === undefined
        ? {}
        : {
            "changes/s": changesPerSecond,
            "rate ratio": changesPerSecond / (first.changesPerSecond ?? NaN),
            "node CPU": nodeUs,
          }),
    },
  };
}
