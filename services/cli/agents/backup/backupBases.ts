/**
 * Completes the events of a backup (`backupEvents`): finds where journals were trimmed before they
 * were read, and saves the bases of those agents.
 *
 * 1. If an agent's event names a predecessor that was not read, the predecessor was trimmed. The
 *    agent's base is saved as an event before all its others.
 * 2. All events of an agent may be trimmed before they are read, once it has a later event. The
 *    events that arrived during the backup are therefore searched for such agents repeatedly, until
 *    two searches together take less time than every event is kept (`KEPT_MS_MIN`).
 * 3. For an agent that was erased meanwhile, or is being erased, its end is saved, so that a
 *    restore does not create it.
 * 4. If a base can't be read, the events after it lack their predecessor: the restored agent does
 *    not start, just as the original would not.
 */
import { findBase } from "../../../../core/journal/Beginnings.ts";
import { bareEnd, lastEnd } from "../../../../core/journal/endLife.ts";
import { KEPT_MS_MIN } from "../../../../core/retention/HistoryLimits.ts";
import type { TimeShape } from "../../../../core/time/Time.ts";
import { addressKey, type AgentId } from "../../../../schemas/Address.ts";
import { shareOf, type BackupEntry } from "../../../../schemas/BackupFile.ts";
import type { ReadPorts } from "../../../wiring/ReadPorts.ts";
import { baseAsEvent } from "../baseAsEvent.ts";
import { Edges, readEdges, type Edge } from "./backupEvents.ts";

/** The most bases that are read at once. Each may be as large as an agent. */
const BASES_AT_ONCE = 8;

/** The missing part of an agent: everything up to its event `after`, or all of an erased one. */
type Missing =
  | { readonly id: AgentId; readonly after: number; readonly restarts: boolean }
  | { readonly id: AgentId; readonly end: BackupEntry };

/** What is missing, by share. Keeps one number per agent. Rejects with `BrokerUnavailable`. */
export async function findMissing(
  { changes }: Pick<ReadPorts, "changes">,
  folder: string,
  {
    edges,
    from,
    ends,
    shares,
    time,
  }: {
    /** Names of the files, in the order of their ranges. */
    readonly edges: Iterable<string>;
    /** Ends of the backup that this one builds on, which has everything before them. */
    readonly from: ReadonlyArray<number>;
    readonly ends: ReadonlyArray<number>;
    readonly shares: number;
    readonly time: Pick<TimeShape, "monotonicMs">;
  },
): Promise<ReadonlyArray<ReadonlyArray<Missing>>> {
  const lasts = new Map<string, number>();
  const missing = new Map<string, Missing>();
  const look = ({ id, after, last }: Edge): void => {
    const key = addressKey(id);
    const known = from[changes.groupOf(id)] ?? 0;
    if (after > Math.max(known, lasts.get(key) ?? 0))
      missing.set(key, { id, after, restarts: known > 0 });
    lasts.set(key, last);
  };
  for (const name of edges) for await (const edge of readEdges(folder, name)) look(edge);
  const erased = new Map<string, BackupEntry>();
  let read = ends;
  for (let beforeMs: number | undefined; ;) {
    const startMs = time.monotonicMs();
    const to = (await changes.streams()).map(({ end }) => end);
    const late = new Edges();
    for (const [group, toSeq] of to.entries())
      for await (const entry of changes.between(group, { fromSeq: read[group]! + 1, toSeq })) {
        if (bareEnd(entry) !== undefined) erased.set(addressKey(entry.id), entry);
        late.add(entry);
      }
    for (const edge of late.all()) look(edge);
    if (beforeMs !== undefined && time.monotonicMs() - beforeMs < KEPT_MS_MIN) break;
    beforeMs = startMs;
    read = to;
  }
  for (const [key, end] of erased) missing.set(key, { id: end.id, end });
  const byShare = Array.from({ length: shares }, (): Missing[] => []);
  for (const each of missing.values()) byShare[shareOf(each.id, shares)]!.push(each);
  return byShare;
}

/** Rejects with `BrokerUnavailable`. */
export async function* basesOf(
  missing: ReadonlyArray<Missing>,
  ports: Pick<ReadPorts, "journal" | "snapshots">,
): AsyncGenerator<BackupEntry, void, void> {
  for (let at = 0; at < missing.length; at += BASES_AT_ONCE)
    yield* await Promise.all(
      missing.slice(at, at + BASES_AT_ONCE).map((each) => entryOf(each, ports)),
    );
}

async function entryOf(
  missing: Missing,
  ports: Pick<ReadPorts, "journal" | "snapshots">,
): Promise<BackupEntry> {
  if ("end" in missing) return missing.end;
  const { id, after, restarts } = missing;
  const base = await findBase(id, after, ports);
  if (base === undefined) {
    const end = await lastEnd(id, after, ports.journal); // rule 3
    // Else rule 4.
    const { seq, storedMs, data } = end ?? { seq: after, storedMs: 0, data: new Uint8Array(0) };
    return { id, seq, storedMs, data };
  }
  return { id, ...baseAsEvent({ _tag: "Base", base, restarts }) };
}
