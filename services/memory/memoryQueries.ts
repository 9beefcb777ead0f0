/**
 * Answers to `query(env.RepoAgent, sql)` in tests: from a view of the memory broker's journals
 * (`core/query/View`) that is in memory, too.
 */
import { Queries } from "../../core/query/Queries.ts";
import { View, type ViewSources } from "../../core/query/View.ts";
import type { MemoryBroker } from "./MemoryBroker.ts";

export function memoryQueries(broker: MemoryBroker, agents: ViewSources["agents"]): Queries {
  const { journal, subjects } = broker;
  const view = new View(agents.databases, subjects.namespace, { kept: false });
  const changes: ViewSources["changes"] = {
    streams: () => Promise.resolve([{ created: "", end: journal.end }]),
    between: async function* (_group, { fromSeq, toSeq }) {
      for (const { id, event } of journal.between(fromSeq, toSeq)) yield { id, ...event };
    },
  };
  return new Queries(view, () => view.catchUp({ changes, agents }));
}
