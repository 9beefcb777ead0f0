/**
 * The journals' streams for a view whose host has stored most of what is new (`OwnEvents`): those
 * events are read from memory, and the broker is asked for the others.
 *
 * 1. Each event of a range is returned once, in stored order, wherever it comes from.
 * 2. An event of the host stands for the stored one: an ack says that it was stored at its
 *    sequence, and events never change. One that was trimmed or erased since is followed by what
 *    tells so, as one that is trimmed after it was read.
 * 3. Events of streams that were removed since are forgotten: other events have their sequences.
 */
import type { AgentClass, AgentId, AgentName } from "../../schemas/Address.ts";
import type { BackupEntry, JournalStream } from "../../schemas/BackupFile.ts";
import type { ChangeSources } from "../changes/changes.ts";
import { OWN_BYTES_MAX, type TakenEvents } from "./OwnEvents.ts";

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

export class KnownChanges implements Pick<ChangeSources, "streams" | "between"> {
  private readonly stored: Pick<ChangeSources, "streams" | "between" | "groupOf">;
  /** By stream group. */
  private known = new Map<number, BackupEntry[]>();
  private bytes = 0;
  private created = "";

  constructor(stored: Pick<ChangeSources, "streams" | "between" | "groupOf">) {
    this.stored = stored;
  }

  /** `taken`: later events of an agent come later. */
  add({ agents, seqs, storedMs, ends, bytes }: TakenEvents): void {
    if (this.bytes > BYTES_MAX) this.forget();
    let start = 0;
    for (const [n, end] of ends.entries()) {
      const id = idOf(agents[n]!);
      const data = bytes.subarray(start, end);
      const group = this.stored.groupOf(id);
      const entries = this.known.get(group);
      const entry = { id, seq: seqs[n]!, storedMs: storedMs[n]!, data };
      if (entries === undefined) this.known.set(group, [entry]);
      else entries.push(entry);
      start = end;
    }
    this.bytes += start;
  }

  /** As `ChangeSources.streams` (3). */
  async streams(): Promise<ReadonlyArray<JournalStream>> {
    const streams = await this.stored.streams();
    const created = streams.map((stream) => stream.created).join();
    if (created !== this.created) this.forget();
    this.created = created;
    return streams;
  }

  /** As `ChangeSources.between` (1). */
  async *between(group: number, range: Range): AsyncGenerator<BackupEntry, void, void> {
    const known = this.take(group, range);
    const gaps = gapsOf(known, range);
    if (gaps.length * EVENTS_PER_GAP > known.length)
      return yield* this.stored.between(group, range);
    let next = 0;
    for (const gap of gaps) {
      while (next < known.length && known[next]!.seq < gap.fromSeq) yield known[next++]!;
      yield* this.stored.between(group, gap);
    }
    while (next < known.length) yield known[next++]!;
  }

  /** The known events of a range, in stored order. Those before it are forgotten, too. */
  private take(group: number, { fromSeq, toSeq }: Range): ReadonlyArray<BackupEntry> {
    const entries = this.known.get(group) ?? [];
    const later = entries.filter(({ seq }) => seq > toSeq);
    this.known.set(group, later);
    this.bytes = 0;
    for (const each of this.known.values()) for (const { data } of each) this.bytes += data.length;
    return entries
      .filter(({ seq }) => seq >= fromSeq && seq <= toSeq)
      .toSorted((a, b) => a.seq - b.seq);
  }

  private forget(): void {
    this.known = new Map();
    this.bytes = 0;
  }
}

/** The parts of a range that none of its known events is in. */
function gapsOf(known: ReadonlyArray<BackupEntry>, { fromSeq, toSeq }: Range): Range[] {
  const gaps: Range[] = [];
  let next = fromSeq;
  for (const { seq } of known) {
    if (seq > next) gaps.push({ fromSeq: next, toSeq: seq - 1 });
    next = seq + 1;
  }
  if (next <= toSeq) gaps.push({ fromSeq: next, toSeq });
  return gaps;
}

/** The inverse of `addressKey`: a class has no slash. */
function idOf(key: string): AgentId {
  const at = key.indexOf("/");
  return { class: key.slice(0, at) as AgentClass, name: key.slice(at + 1) as AgentName };
}
