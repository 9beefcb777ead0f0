/**
 * The row that an agent has after an event, or at a time, for `View`: by the event where it follows
 * the row's last, else of the agent rebuilt from what is stored (its invariants 2, 6 and 8).
 */
import type { AgentId } from "../../schemas/Address.ts";
import type { BackupEntry } from "../../schemas/BackupFile.ts";
import { ifReadable, isUnreadable } from "../../schemas/Frame.ts";
import { decodeEvent, type JournalHead } from "../../schemas/JournalEvent.ts";
import { baseFor } from "../journal/baseFor.ts";
import { HistoryTrimmed } from "../journal/HistoryTrimmed.ts";
import { decodeStored } from "../journal/decodeStored.ts";
import { rebuildAgent, type Rebuilt, type RebuildSources } from "../journal/rebuildAgent.ts";
import { afterChange, afterEvent, hidesSchedules, rowOf, type AgentRow } from "./AgentRow.ts";
import type { KnownEntry } from "./KnownChanges.ts";
import { changeOf, lastSeq, type RowChange } from "./RowChange.ts";

/** What agents are rebuilt from. `databases`: temporary ones. */
export type RowSources = Required<Pick<RebuildSources, "journal" | "snapshots" | "databases">>;

/**
 * The row after an event, or after the known change of several: by it, at once, or of the rebuilt
 * agent, as a promise (2, 6). This rejects with `BrokerUnavailable`, and for an earlier time with
 * `HistoryTrimmed`.
 */
export function rowAfter(
  entry: BackupEntry | KnownEntry,
  row: AgentRow,
  sources: RowSources,
  atTimeMs?: number,
): AgentRow | Promise<AgentRow> {
  let change: RowChange;
  if ("change" in entry) {
    ({ change } = entry);
    if (change.after <= row.seq) return afterChange(row, change);
  } else
    try {
      const { head } = decodeStored(entry);
      const follows = (head.after ?? 0) <= row.seq && !hidesSchedules(head);
      if (follows) return afterEvent(row, entry.seq, head);
      change = changeOf(entry.seq, head, undefined);
    } catch (error) {
      return faulty(row, error);
    }
  const rebuilding = rebuild(entry.id, change, row, { ...sources, atTimeMs });
  return rebuilding.catch((error: unknown) => faulty(row, error));
}

/** Rule 6. Throws any error but those of damaged bytes. */
function faulty(row: AgentRow, error: unknown): AgentRow {
  if (!isUnreadable(error)) throw error;
  return { ...row, fault: error.message, ended: false };
}

/** Undefined: the event is damaged. */
export const headOf = ({ data }: BackupEntry): JournalHead | undefined =>
  ifReadable(() => decodeEvent(data))?.head;

/** Since when the agent's history is kept: its base stands for the time before its first event. */
export async function keptFrom(
  { id, after: trimmed, timeMs }: HistoryTrimmed,
  { snapshots }: RowSources,
): Promise<number> {
  const stored = await snapshots.bases(id);
  return (stored && baseFor(id, stored, trimmed))?.head.time ?? timeMs;
}

/** The agent's row at a time (8). Rejects with `HistoryTrimmed` and `BrokerUnavailable`. */
export async function rowAt(
  id: AgentId,
  atTimeMs: number,
  row: AgentRow,
  sources: RowSources,
): Promise<AgentRow> {
  try {
    const rebuilt = await rebuildAgent(id, { ...sources, atTimeMs });
    return closing(rebuilt, () => rowOf(rebuilt, row, undefined));
  } catch (error) {
    return faulty(row, error);
  }
}

/**
 * The agent after the change. If its last event is trimmed meanwhile, the agent as it is now, or at
 * `atTimeMs`; the events between are skipped (2).
 */
async function rebuild(
  id: AgentId,
  change: RowChange,
  row: AgentRow,
  { atTimeMs, ...sources }: RowSources & { readonly atTimeMs: number | undefined },
): Promise<AgentRow> {
  const latest = atTimeMs === undefined ? {} : { atTimeMs };
  const atSeq = lastSeq(change);
  const rebuilt = await rebuildAgent(id, { ...sources, atSeq }).catch((error: unknown) => {
    if (error instanceof HistoryTrimmed) return rebuildAgent(id, { ...sources, ...latest });
    throw error;
  });
  return closing(rebuilt, () => rowOf(rebuilt, row, change));
}

function closing<A>({ database }: Rebuilt, use: () => A): A {
  try {
    return use();
  } finally {
    database.close();
  }
}
