/** How fast an agent is rebuilt from its journal, compared with only reading or only applying. */
import type { JournalShape, StoredEvent } from "../../core/journal/Journal.ts";
import { rebuildAgent } from "../../core/journal/rebuildAgent.ts";
import type { Sequence } from "../../schemas/Address.ts";
import type { Bench, BenchRow } from "./Bench.ts";
import { agentNamed, durabilityOf, openBenchHost } from "./rig/BenchHost.ts";
import { median } from "./rig/statistics.ts";
import { collect } from "../kit/collect.ts";

const EVENTS = 10_000;
/** Runs each way, for each round asked for. */
const REPEATS_PER_ROUND = 3;
const WARM_UPS = 2;
const FIRST = { fromSeq: 1 as Sequence };

export const replay: Bench = {
  name: "replay",
  about: "events/s through rebuildAgent, beside only reading them and only applying them",
  run: async (options) => {
    const host = await openBenchHost(options);
    try {
      options.say(`writing ${EVENTS} events`);
      const agent = await host.write("long", EVENTS);
      const wanted = Buffer.from(agent.database.image());
      agent.discard();
      const { journal } = host.services;
      const id = agentNamed("long");
      const stored = await collect(journal.read(id, FIRST));
      const inMemory: JournalShape = { ...journal, read: () => each(stored) };
      const rebuild = async (source: JournalShape): Promise<void> => {
        const rebuilt = await rebuildAgent(id, {
          journal: source,
          databases: host.memoryDatabases,
        });
        const same = Buffer.compare(rebuilt.database.image(), wanted) === 0;
        rebuilt.database.close();
        if (!same) throw new Error("the rebuilt database is not the one that was written");
      };
      const ways: ReadonlyArray<readonly [string, () => Promise<void>]> = [
        [
          "read only",
          async () => {
            let events = 0;
            for await (const event of journal.read(id, FIRST)) events += Math.sign(event.seq);
            if (events !== stored.length) throw new Error(`${events} of ${stored.length} events`);
          },
        ],
        ["apply only (from memory)", () => rebuild(inMemory)],
        ["rebuildAgent", () => rebuild(journal)],
      ];
      options.say("rebuilding");
      const rates = new Map(ways.map(([name]) => [name, [] as number[]]));
      for (let n = -WARM_UPS; n < options.rounds * REPEATS_PER_ROUND; n += 1)
        for (const [name, run] of n % 2 === 0 ? ways : ways.toReversed()) {
          const startMs = performance.now();
          await run();
          if (n >= 0) rates.get(name)!.push((stored.length * 1000) / (performance.now() - startMs));
        }
      const floor = median(rates.get("read only")!);
      const bytes = stored.reduce((sum, { data }) => sum + data.length, 0);
      return {
        title: `${stored.length} events of ${Math.round(bytes / stored.length)} bytes, a database of ${Math.round(wanted.length / 1024)} KiB`,
        server: host.serverVersion,
        durability: durabilityOf(options),
        rows: [...rates].map(([name, found]): BenchRow => ({
          name,
          values: { "events/s": median(found), ratio: median(found) / floor },
        })),
        raw: Object.fromEntries(rates),
        notes: [
          "ratio: to reading only. The rebuilt database was compared byte by byte each time.",
        ],
      };
    } finally {
      await host.close();
    }
  },
};

async function* each(events: ReadonlyArray<StoredEvent>): AsyncGenerator<StoredEvent, void, void> {
  yield* events;
}
