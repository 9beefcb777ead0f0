/**
 * The rows that single events of an agent changed, from the pages that they carry: what a statement
 * in the history wrote, with its values. For `agents history --rows` and the console.
 */
import type { AgentId, Sequence } from "../../schemas/Address.ts";
import { decodeEvent } from "../../schemas/JournalEvent.ts";
import { readTables, tableDifferences, type Difference } from "./agentDifferences.ts";
import { rebuildAgent, replayEvent, type RebuildSources } from "../journal/rebuildAgent.ts";

/** Rows of one table past which only their number is compared. */
const ROWS_MAX = 10_000;

/** `seqs`: ascending. Yields those that changed rows, in order. Rejects as `rebuildAgent`. */
export async function* eventRows(
  id: AgentId,
  seqs: ReadonlyArray<number>,
  sources: Pick<RebuildSources, "journal" | "snapshots" | "databases">,
): AsyncGenerator<{ readonly seq: number; readonly rows: ReadonlyArray<Difference> }> {
  if (seqs.length === 0) return;
  const wanted = new Set(seqs);
  const { image, database } = await rebuildAgent(id, { ...sources, atSeq: seqs[0]! - 1 });
  try {
    const range = { fromSeq: (image.seq + 1) as Sequence, toSeq: seqs.at(-1) as Sequence };
    for await (const { seq, data } of sources.journal.read(id, range)) {
      const event = decodeEvent(data);
      const changes = event.delta.length > 0 || event.head.kind === "destroyed";
      const before = changes && wanted.has(seq) ? readTables(database, ROWS_MAX) : undefined;
      replayEvent(image, database, seq, event);
      if (before === undefined) continue;
      const rows = [...tableDifferences(before, readTables(database, ROWS_MAX))];
      if (rows.length > 0) yield { seq, rows };
    }
  } finally {
    database.close();
  }
}
