/**
 * How long a cold agent takes to be ready for its next turn: rebuilt, constructed, `onStart` run
 * (it opens the database). From a clean local file, from a snapshot, and from 1,000 events of the
 * journal, compared with one direct get, which is the least that any system has to request from the
 * broker.
 */
import type { ActiveAgent } from "../../core/runtime/ActiveAgent.ts";
import type { HostServices } from "../../services/host/HostServices.ts";
import type { Bench, BenchRow } from "./Bench.ts";
import { agentNamed, durabilityOf, openBenchHost } from "./rig/BenchHost.ts";
import { median, percentile } from "./rig/statistics.ts";

/** Events in each agent's journal: the most that the snapshot policy allows. */
const EVENTS = 1000;
/** Agents that take turns: no way finds its own last agent still warm in some cache. */
const AGENTS = 24;
/** Wakes measured each way, for each round asked for. */
const WAKES_PER_ROUND = 100;
const WARM_UP_WAKES = 48;

export const activation: Bench = {
  name: "activation",
  about: "cold activation: local file, snapshot, replay of 1,000 events; beside one direct get",
  run: async (options) => {
    const host = await openBenchHost(options);
    try {
      const { services, nats } = host;
      options.say(`writing ${AGENTS} agents of ${EVENTS} events`);
      await Promise.all(
        Array.from({ length: AGENTS }, async (_, n) => {
          const agent = await host.write(`a${n}`, EVENTS);
          await services.snapshots.put(agent.id, agent.image.encode(agent.database.image()));
          leave(agent);
        }),
      );
      const noSnapshots = { ...services.snapshots, newestFirst: () => none() };
      const fromSnapshot: HostServices = { ...services, databases: host.memoryDatabases };
      const fromJournal: HostServices = { ...fromSnapshot, snapshots: noSnapshots };
      const id = (n: number) => agentNamed(`a${n % AGENTS}`);
      const timed = async (wake: () => Promise<ActiveAgent>): Promise<number> => {
        const startMs = performance.now();
        const agent = await wake();
        const tookMs = performance.now() - startMs;
        if (agent.stateText !== `{"count":${EVENTS}}`)
          throw new Error(`${agent.id.name} woke with the state ${agent.stateText}`);
        leave(agent);
        return tookMs;
      };
      const journal = nats.subjects.stream.journal;
      const ways: ReadonlyArray<readonly [string, (n: number) => Promise<number>]> = [
        [
          "one direct get",
          async (n) => {
            const query = { last_by_subj: nats.subjects.journal(id(n)) };
            const startMs = performance.now();
            await nats.reader.direct(journal, query);
            return performance.now() - startMs;
          },
        ],
        ["clean local file", (n) => timed(() => host.wake(id(n), services))],
        ["snapshot", (n) => timed(() => host.wake(id(n), fromSnapshot))],
        [`replay of ${EVENTS} events`, (n) => timed(() => host.wake(id(n), fromJournal))],
      ];
      options.say("waking them");
      const times = new Map(ways.map(([name]) => [name, [] as number[]]));
      for (let n = -WARM_UP_WAKES; n < options.rounds * WAKES_PER_ROUND; n += 1)
        for (const [name, measure] of n % 2 === 0 ? ways : ways.toReversed()) {
          const tookMs = await measure(n + WARM_UP_WAKES);
          if (n >= 0) times.get(name)!.push(tookMs);
        }
      const floor = median(times.get("one direct get")!);
      return {
        title: `${options.rounds * WAKES_PER_ROUND} wakes each, ${AGENTS} agents in turn, one at a time`,
        server: host.serverVersion,
        durability: durabilityOf(options),
        rows: [...times].map(([name, ms]): BenchRow => ({
          name,
          values: {
            "p50 ms": median(ms),
            "p99 ms": percentile(ms, 99),
            "p50 ratio": median(ms) / floor,
            ...(name.startsWith("replay") ? { "events/s": (EVENTS * 1000) / median(ms) } : {}),
          },
        })),
        raw: Object.fromEntries(times),
        notes: ["ratio: to one direct get."],
      };
    } finally {
      await host.close();
    }
  },
};

/** Out of memory as at hibernation; its local file stays where it has one. */
function leave(agent: ActiveAgent): void {
  agent.discarded = true;
  agent.database.close({ seq: agent.image.seq, core: agent.image.encode() });
}

async function* none(): AsyncGenerator<Uint8Array, void, void> {}
