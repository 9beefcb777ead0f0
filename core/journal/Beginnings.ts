/**
 * Reads a journal whose beginning was trimmed as if it had one: the agent's base takes the place of
 * the events before its journal's first. For commands that copy an agent (`agents export`, `fork`)
 * or print its history.
 *
 * 1. Each event names its predecessor. If that is not the event that was read last, the events
 *    between the two were trimmed, before or during the reading.
 * 2. A base may cover events that are still there (`baseFor`). Those are left out.
 * 3. The journal may be trimmed again before the base of a gap is read, and only the last bases are
 *    kept. In that case there is a base for the journal's new beginning.
 * 4. The agent may be erased while its journal is read. Then the event after the gap is gone, too,
 *    or a bare end follows it. If it would have been the first, reading begins with that end.
 */
import type { AgentId, Sequence } from "../../schemas/Address.ts";
import { CorruptFrame, ifReadable } from "../../schemas/Frame.ts";
import { decodeEvent, type JournalEvent } from "../../schemas/JournalEvent.ts";
import { baseFor, type Base } from "./baseFor.ts";
import { decodeStored } from "./decodeStored.ts";
import { HistoryTrimmed } from "./HistoryTrimmed.ts";
import type { AgentImage } from "./AgentImage.ts";
import { lastEnd } from "./endLife.ts";
import type { JournalShape, StoredEvent } from "./Journal.ts";
import type { SnapshotsShape } from "./Snapshots.ts";

export type Read =
  /** `decode` throws `CorruptFrame` or `UnknownVersion`. */
  | { readonly _tag: "Event"; readonly event: StoredEvent; readonly decode: () => JournalEvent }
  /** `restarts`: events before it were read, which the base covers too. */
  | { readonly _tag: "Base"; readonly base: Base; readonly restarts: boolean };

type ErasableJournal = Pick<JournalShape, "read" | "first">;

interface Sources {
  readonly journal: ErasableJournal;
  readonly snapshots: Pick<SnapshotsShape, "bases">;
}

/**
 * One agent's journal, or the part of it with these sequences, both included. Rejects as
 * `Journal.read`, with `CorruptFrame` where no base of what was trimmed can be read, and with
 * `HistoryTrimmed` where the only one is past `toSeq`, or if a part was read before the agent was
 * erased.
 */
export async function* readFromBase(
  id: AgentId,
  sources: Sources,
  { fromSeq = 1, toSeq }: { readonly fromSeq?: number; readonly toSeq?: number | undefined } = {},
): AsyncGenerator<Read, void, void> {
  let seq = fromSeq - 1;
  const range = {
    fromSeq: fromSeq as Sequence,
    ...(toSeq !== undefined && { toSeq: toSeq as Sequence }),
  };
  for await (const event of sources.journal.read(id, range)) {
    if (event.seq <= seq) continue; // rule 2
    const decode = decodedOnce(event);
    const after = afterOf(event, decode);
    if (after > seq) {
      const base = await findBase(id, after, sources);
      if (base === undefined) {
        const removed = await removedSince(id, event.seq, sources.journal);
        if (removed === undefined)
          throw new CorruptFrame({
            message: `event ${event.seq} follows event ${after}, which was trimmed, and no base for it can be read`,
          });
        if (seq >= fromSeq) throw removed;
        seq = removed.seq - 1;
        continue;
      }
      if (base.head.seq > (toSeq ?? Infinity))
        throw new HistoryTrimmed({ id, seq: event.seq, after, timeMs: decode().head.time });
      yield { _tag: "Base", base, restarts: seq >= fromSeq };
      seq = base.head.seq;
      if (event.seq <= seq) continue;
    }
    seq = event.seq;
    yield { _tag: "Event", event, decode };
  }
}

/** Decodes at the first call only: this file and its reader both need the content. */
function decodedOnce(stored: StoredEvent): () => JournalEvent {
  let decoded: JournalEvent | undefined;
  return () => (decoded ??= decodeStored(stored));
}

/**
 * The base that covers the events up to `after`, where a reader found a gap; it may also cover
 * later ones. Undefined where none can be read. Rejects with `BrokerUnavailable`, and as
 * `Journal.first`.
 */
export async function findBase(
  id: AgentId,
  after: number,
  { journal, snapshots }: { readonly journal: Pick<JournalShape, "first">; readonly snapshots: Sources["snapshots"] }, // prettier-ignore
): Promise<Base | undefined> {
  for (let gap = after; ;) {
    const stored = await snapshots.bases(id);
    const base = stored && baseFor(id, stored, gap);
    if (base !== undefined) return base;
    // Rule 3.
    const first = await journal.first(id);
    const now = first === undefined ? 0 : afterOf(first);
    if (now <= gap) return undefined;
    gap = now;
  }
}

/** 0 for the first event, one that does not name its predecessor, and one that can't be read. */
export const afterOf = (
  { data }: Pick<StoredEvent, "data">,
  decode = () => decodeEvent(data),
): number => ifReadable(decode)?.head.after ?? 0;

/**
 * Where the journal begins, if it was trimmed: the error for a caller that asks for earlier events.
 * Rejects as `Journal.first`.
 */
export async function trimmedBefore(
  id: AgentId,
  journal: Pick<JournalShape, "first">,
): Promise<HistoryTrimmed | undefined> {
  const first = await journal.first(id);
  if (first === undefined) return undefined;
  const { after = 0, time } = decodeEvent(first.data).head;
  if (after === 0) return undefined;
  return new HistoryTrimmed({ id, seq: first.seq, after, timeMs: time });
}

/**
 * The error for a reader that has found a gap before event `seq`, if it is no damage: the agent was
 * erased, is being erased, or was trimmed again. Rejects as `Journal.first` and `Journal.read`.
 */
export async function removedSince(
  id: AgentId,
  seq: number,
  journal: ErasableJournal,
): Promise<HistoryTrimmed | undefined> {
  const first = await journal.first(id);
  const start = (await lastEnd(id, seq, journal)) ?? first;
  if (start === undefined || start.seq <= seq) return undefined;
  const { after = start.seq - 1, time } = decodeEvent(start.data).head;
  return new HistoryTrimmed({ id, seq: start.seq, after, timeMs: time });
}

/**
 * The events after `seq`, up to `toSeq`, for a reader that can't begin anew. Rejects as
 * `Journal.read`, with `CorruptFrame` or `UnknownVersion` for an event that can't be read, and with
 * `HistoryTrimmed` if they are removed meanwhile. Of an agent that is being erased, the events from
 * its end on, if nothing before them was read.
 */
export async function* readOn(
  { id, seq }: Pick<AgentImage, "id" | "seq">,
  toSeq: number,
  journal: ErasableJournal,
): AsyncGenerator<StoredEvent & { readonly event: JournalEvent }, void, void> {
  let last: number = seq;
  const range = { fromSeq: (seq + 1) as Sequence, toSeq: toSeq as Sequence };
  for await (const stored of journal.read(id, range)) {
    if (stored.seq <= last) continue;
    const event = decodeStored(stored);
    const { after = last } = event.head;
    const removed = after === last ? undefined : await removedSince(id, stored.seq, journal);
    if (removed !== undefined && (last > 0 || removed.seq > toSeq)) throw removed;
    last = removed === undefined ? stored.seq : removed.seq - 1;
    if (removed !== undefined) continue;
    yield { ...stored, event };
  }
}
