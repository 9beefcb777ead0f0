/**
 * A journal and its archive, read as one: events that were trimmed come from the archive, the rest
 * from the journal. For commands that read history; hosts never need trimmed events.
 *
 * 1. The newest base names the last archived part, each part the one before it. They are followed
 *    back as far as the range needs, and then read forwards, one at a time.
 * 2. The journal may be trimmed further meanwhile. Where its next event is not the one after what
 *    was read, the base is asked again.
 */
import type { AgentId, Sequence } from "../../schemas/Address.ts";
import { decodeEvent } from "../../schemas/JournalEvent.ts";
import type { ArchivePlace } from "../../schemas/Snapshot.ts";
import { newestBase } from "../journal/baseFor.ts";
import type { JournalShape, StoredEvent } from "../journal/Journal.ts";
import type { SnapshotsShape } from "../journal/Snapshots.ts";
import type { ArchiveShape } from "./Archive.ts";

interface ArchivedSources {
  readonly journal: JournalShape;
  readonly snapshots: Pick<SnapshotsShape, "bases">;
  readonly archive: Pick<ArchiveShape, "read" | "begin">;
}

/** Its methods also reject with `ArchiveUnavailable`, and `CorruptFrame` for a damaged part. */
export function archivedJournal(sources: ArchivedSources): JournalShape {
  const { journal } = sources;
  return {
    ...journal,
    read: (id, range) => read(sources, id, range),
    first: async (id) => {
      const kept = await journal.first(id);
      if (kept === undefined || afterOf(kept) === 0) return kept;
      for await (const event of read(sources, id, { fromSeq: 1 as Sequence })) return event;
      return kept;
    },
  };
}

type Range = Parameters<JournalShape["read"]>[1];

async function* read(
  sources: ArchivedSources,
  id: AgentId,
  { fromSeq, toSeq = Infinity as Sequence }: Range,
): AsyncGenerator<StoredEvent, void, void> {
  let next: number = fromSeq;
  /** The event before the last gap for which the archive was asked: asking again is no help. */
  let asked = 0;
  for (let gap: number | undefined = 0; gap !== undefined;) {
    gap = undefined;
    for await (const event of journalFrom(sources, id, next, toSeq)) {
      const after = afterOf(event);
      if (after >= next && after !== asked) {
        gap = after;
        break;
      }
      yield event;
      next = event.seq + 1;
    }
    if (gap === undefined) break;
    // Rule 2.
    asked = gap;
    for await (const event of archived(sources, id, { fromSeq: next, toSeq })) {
      yield event;
      next = event.seq + 1;
    }
  }
  // All of the range may have been trimmed.
  if (next === fromSeq && toSeq < Infinity) yield* archived(sources, id, { fromSeq: next, toSeq });
}

const journalFrom = (
  { journal }: ArchivedSources,
  id: AgentId,
  fromSeq: number,
  toSeq: Sequence,
): AsyncIterable<StoredEvent> =>
  journal.read(id, { fromSeq: fromSeq as Sequence, ...(toSeq === Infinity ? {} : { toSeq }) });

/** Rule 1. */
async function* archived(
  { snapshots, archive }: ArchivedSources,
  id: AgentId,
  { fromSeq, toSeq }: { readonly fromSeq: number; readonly toSeq: number },
): AsyncGenerator<StoredEvent, void, void> {
  const stored = await snapshots.bases(id);
  const places: ArchivePlace[] = [];
  let place = stored && newestBase(id, stored)?.head.archive;
  while (place !== undefined) {
    const { firstSeq, previous } = await archive.begin(id, place);
    if (firstSeq <= toSeq) places.push(place);
    place = firstSeq <= fromSeq ? undefined : previous;
  }
  for (const at of places.toReversed())
    for (const event of (await archive.read(id, at)).events)
      if (event.seq >= fromSeq && event.seq <= toSeq) yield event;
}

/** 0 for the first event, and for one that does not say. */
const afterOf = ({ data }: StoredEvent): number => {
  try {
    return decodeEvent(data).head.after ?? 0;
  } catch {
    // A reader of the part detects the damage.
    return 0;
  }
};
