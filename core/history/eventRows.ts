/**
 * The rows that single events of an agent changed, from the pages that they carry: what a statement
 * in the history wrote, with its values. For `agents history --rows` and the console.
 */
import type { AgentId } from "../../schemas/Address.ts";
import { readTables, tableDifferences, type Difference, type Tables } from "./agentDifferences.ts";
import { readOn } from "../journal/Beginnings.ts";
import { rebuildAgent, replayEvent, type RebuildSources } from "../journal/rebuildAgent.ts";

/** Rows of one table past which only their number is compared. */
const ROWS_MAX = 10_000;

/** `seqs`: ascending. Yields those that changed rows, in order. Rejects as `rebuildAgent` does. */
export async function* eventRows(
  id: AgentId,
  seqs: ReadonlyArray<number>,
  sources: Pick<RebuildSources, "journal" | "snapshots" | "databases">,
): AsyncGenerator<{ readonly seq: number; readonly rows: ReadonlyArray<Difference> }> {
  if (seqs.length === 0) return;
  const wanted = new Set(seqs);
  const { image, database } = await rebuildAgent(id, { ...sources, atSeq: seqs[0]! - 1 });
  /** The rows as of now; undefined: not read since the last change. */
  let tables: Tables | undefined;
  try {
    for await (const { seq, event } of readOn(image, seqs.at(-1)!, sources.journal)) {
      const changes = event.delta.length > 0 || event.head.kind === "destroyed";
      const isShown = changes && wanted.has(seq);
      const before = isShown ? (tables ?? readTables(database, ROWS_MAX)) : undefined;
      replayEvent(image, database, seq, event);
      if (changes) tables = isShown ? readTables(database, ROWS_MAX) : undefined;
      if (before === undefined || tables === undefined) continue;
      const rows = [...tableDifferences(before, tables)];
      if (rows.length > 0) yield { seq, rows };
    }
  } finally {
    database.close();
  }
}
