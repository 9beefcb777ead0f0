/**
 * The journals' streams for a view whose host has stored most of what is new (`OwnEvents`): what
 * those events change is known, and the broker is asked for the others.
 *
 * 1. Each event of a range is in what is returned, once: as itself, or in the known change of its
 *    agent, which has the place of its first event. Events of one agent are in stored order.
 * 2. An event of the host stands for the stored one: an ack says that it was stored at its
 *    sequence, and events never change. One that was trimmed or erased since is followed by what
 *    tells so, as one that is trimmed after it was read.
 * 3. Events of streams that were removed since are forgotten: other events have their sequences.
 */
import type { AgentId } from "../../schemas/Address.ts";
import type { BackupEntry, JournalStream } from "../../schemas/BackupFile.ts";
import type { ChangeSources } from "../changes/changes.ts";
import { bytesOf, OWN_BYTES_MAX, type OwnChange } from "./OwnEvents.ts";
import { lastSeq, type RowChange } from "./RowChange.ts";

/**
 * A request for missing events costs the broker about what so many events cost. With more gaps, as
 * where several hosts write, all of the range is requested.
 */
const EVENTS_PER_GAP = 32;
/** Past it, what questions that failed have left is forgotten, and the broker is asked for it. */
const BYTES_MAX = 2 * OWN_BYTES_MAX;

interface Range {
  readonly fromSeq: number;
  readonly toSeq: number;
}

/** A known change. */
export interface KnownEntry {
  readonly id: AgentId;
  /**
   * Sequence of its first event; of a change that begins before the range, that of the last event
   * before the range. Everything up to here has been returned.
   */
  readonly seq: number;
  readonly change: RowChange;
}

export class KnownChanges implements Pick<ChangeSources, "streams"> {
  /** By stream group. */
  private known = new Map<number, KnownEntry[]>();
  private bytes = 0;
  private created = "";

  constructor(
    private readonly stored: Pick<ChangeSources, "streams" | "between" | "groupOf">,
    private readonly eventsPerGap = EVENTS_PER_GAP,
  ) {}

  add(changes: ReadonlyArray<OwnChange>): void {
    if (this.bytes > BYTES_MAX) this.forget();
    for (const { id, change } of changes) {
      const group = this.stored.groupOf(id);
      const entry = { id, seq: change.seqs[0]!, change };
      const entries = this.known.get(group);
      if (entries === undefined) this.known.set(group, [entry]);
      else entries.push(entry);
      this.bytes += bytesOf(change);
    }
  }

  /** As `ChangeSources.streams` (3). */
  async streams(): Promise<ReadonlyArray<JournalStream>> {
    const streams = await this.stored.streams();
    const created = streams.map((stream) => stream.created).join();
    if (created !== this.created) this.forget();
    this.created = created;
    return streams;
  }

  /** The events of one stream group with `fromSeq <= seq <= toSeq` (1). */
  async *between(
    group: number,
    range: Range,
  ): AsyncGenerator<BackupEntry | KnownEntry, void, void> {
    const { fromSeq, toSeq } = range;
    const known = this.take(group, range);
    const seqs = known
      .flatMap(({ change }) => change.seqs.filter((seq) => seq >= fromSeq && seq <= toSeq))
      .toSorted((a, b) => a - b);
    const gaps = gapsOf(seqs, range);
    if (gaps.length * this.eventsPerGap > seqs.length)
      return yield* this.stored.between(group, range);
    let next = 0;
    for (const gap of gaps) {
      while (next < known.length && known[next]!.seq < gap.fromSeq) yield known[next++]!;
      yield* this.stored.between(group, gap);
    }
    while (next < known.length) yield known[next++]!;
  }

  /**
   * The known changes with events in a range, in the order of their first ones. They are forgotten,
   * with those before them; only a change with events after the range is kept, too.
   */
  private take(group: number, { fromSeq, toSeq }: Range): ReadonlyArray<KnownEntry> {
    const entries = this.known.get(group) ?? [];
    this.known.set(
      group,
      entries.filter(({ change }) => lastSeq(change) > toSeq),
    );
    this.bytes = 0;
    for (const each of this.known.values())
      for (const { change } of each) this.bytes += bytesOf(change);
    return entries
      .filter(({ seq, change }) => lastSeq(change) >= fromSeq && seq <= toSeq)
      .map((entry) => ({ ...entry, seq: Math.max(entry.seq, fromSeq - 1) }))
      .toSorted((a, b) => a.seq - b.seq);
  }

  private forget(): void {
    this.known = new Map();
    this.bytes = 0;
  }
}

/** The parts of a range that none of the sequences is in. They ascend. */
function gapsOf(seqs: ReadonlyArray<number>, { fromSeq, toSeq }: Range): Range[] {
  const gaps: Range[] = [];
  let next = fromSeq;
  for (const seq of seqs) {
    if (seq > next) gaps.push({ fromSeq: next, toSeq: seq - 1 });
    next = seq + 1;
  }
  if (next <= toSeq) gaps.push({ fromSeq: next, toSeq });
  return gaps;
}
