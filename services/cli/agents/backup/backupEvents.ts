/**
 * Saves the events of one range of a journal's stream for `agents backup`. Ranges are read
 * independently in parallel. Each also writes its edges: where the events of every agent begin and
 * end. `backupBases` finds from them what was trimmed.
 */
import { join } from "node:path";
import { afterOf } from "../../../../core/journal/Beginnings.ts";
import { addressKey, agentId, type AgentId } from "../../../../schemas/Address.ts";
import type { BackupEntry, BackupFile } from "../../../../schemas/BackupFile.ts";
import type { ReadPorts } from "../../../wiring/ReadPorts.ts";
import type { BackupPlan, Piece } from "./BackupLog.ts";
import { LinesFile, unzippedLines, writeFiles } from "./backupFolder.ts";

/** Sequences of one stream group; both ends are included. */
interface EventRange {
  readonly group: number;
  readonly fromSeq: number;
  readonly toSeq: number;
}

/** One agent's events of a range. */
export interface Edge {
  readonly id: AgentId;
  /** The predecessor that the first event names, or the one before a gap. 0 if none is named. */
  readonly after: number;
  readonly last: number;
}

/** The ranges of all events after `from`: the ends of the backup that this one builds on. */
export function rangesOf(
  { streams, rangeEvents }: Pick<BackupPlan, "streams" | "rangeEvents">,
  from: ReadonlyArray<number>,
): ReadonlyArray<EventRange> {
  return streams.flatMap(({ end }, group) => {
    const ranges: EventRange[] = [];
    for (let seq = (from[group] ?? 0) + 1; seq <= end; seq += rangeEvents)
      ranges.push({ group, fromSeq: seq, toSeq: Math.min(end, seq + rangeEvents - 1) });
    return ranges;
  });
}

export const pieceOf = ({ group, fromSeq }: EventRange): string => `events-${group}-${fromSeq}`;

/** `saw` is called with the sequence of each event. Rejects as `changes.between` does. */
export async function saveRange(
  { changes }: Pick<ReadPorts, "changes">,
  folder: string,
  {
    range,
    shares,
    saw,
  }: { readonly range: EventRange; readonly shares: number; readonly saw: (seq: number) => void },
): Promise<Piece> {
  const piece = pieceOf(range);
  const edges = new Edges();
  async function* events(): AsyncGenerator<BackupEntry> {
    for await (const entry of changes.between(range.group, range)) {
      edges.add(entry);
      saw(entry.seq);
      yield entry;
    }
  }
  const into = { prefix: piece, kind: "events", shares } as const;
  const files = await writeFiles(folder, into, events());
  return { piece, files, edges: await writeEdges(folder, `edges-${piece}.jsonl.gz`, edges.all()) };
}

export class Edges {
  private readonly byAgent = new Map<string, { id: AgentId; after: number; last: number }>();

  add({ id, seq, data }: BackupEntry): void {
    const key = addressKey(id);
    const known = this.byAgent.get(key);
    const after = afterOf({ data });
    if (known === undefined) this.byAgent.set(key, { id, after, last: seq });
    else {
      if (after > known.last) known.after = after; // trimmed while it was read
      known.last = seq;
    }
  }

  all(): Iterable<Edge> {
    return this.byAgent.values();
  }
}

async function writeEdges(
  folder: string,
  name: string,
  edges: Iterable<Edge>,
): Promise<Pick<BackupFile, "name" | "sum">> {
  const file = await LinesFile.create(join(folder, name));
  try {
    for (const { id, after, last } of edges) {
      const written = file.add(JSON.stringify([id.class, id.name, after, last]));
      if (written !== undefined) await written;
    }
  } catch (error) {
    await file.close();
    throw error;
  }
  return { name, sum: await file.finish() };
}

export async function* readEdges(folder: string, name: string): AsyncGenerator<Edge, void, void> {
  for await (const line of unzippedLines(join(folder, name))) {
    const [className, agent, after, last] = JSON.parse(line) as [string, string, number, number];
    yield { id: agentId(className, agent), after, last };
  }
}
