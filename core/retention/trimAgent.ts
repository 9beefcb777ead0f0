/**
 * Trims one agent's journal: removes a prefix of it that its base covers. Called by
 * `services/retention` for agents that exceed their class's limits.
 *
 * 1. The base is the result of replaying the events, from the previous base on. Snapshots of hosts
 *    are not trusted.
 * 2. It is stored, read back and compared, then stored a second time and compared again, and only
 *    then events are removed. So a base that is stored twice was compared, whoever stored it.
 *    With an archive, the events to remove are stored there first; the base names their place.
 * 3. The first event that stays names the one before it (`after`), so that nobody replays the rest
 *    from nothing. Events of early releases and of imported agents name none: those go together
 *    with the first later one.
 * 4. The last event stays: it is the fence of all appends. So do the events of a turn that has not
 *    ended, if it stored parts: its agent's next owner undoes them from these events.
 * 5. A run can end at any point, and another process can trim the same agent meanwhile. The next
 *    run begins again from what is stored. Bases are replaced by compare-and-set, and the one that
 *    the journal begins behind is never displaced.
 * 6. An agent that was erased meanwhile keeps no base: `agents erase` removes those that it finds,
 *    and a trimming process looks at the journal again after its base is stored, and at a gap.
 * 7. Without an archive, an agent whose older history is in one is trimmed only with
 *    `leavesArchive`: a process that was started without it by mistake would lose history.
 */
import * as Data from "effect/Data";
import { addressKey, type AgentId, type Sequence } from "../../schemas/Address.ts";
import { CorruptFrame } from "../../schemas/Frame.ts";
import { decodeEvent } from "../../schemas/JournalEvent.ts";
import type { AgentDatabase, DatabasesShape } from "../database/Databases.ts";
import { AgentImage } from "../journal/AgentImage.ts";
import { removedSince } from "../journal/Beginnings.ts";
import { baseFor, equal, settledBase, type Base } from "../journal/baseFor.ts";
import { decodeStored } from "../journal/decodeStored.ts";
import { bareEnd } from "../journal/endLife.ts";
import { OpenParts } from "../journal/OpenParts.ts";
import type { JournalShape, StoredEvent } from "../journal/Journal.ts";
import { checkNothingIsMissing, replayEvent } from "../journal/rebuildAgent.ts";
import type { SnapshotsShape, StoredBases } from "../journal/Snapshots.ts";
import type { TimeShape } from "../time/Time.ts";
import { ArchiveUnavailable, type ArchiveShape } from "./Archive.ts";
import { mayGo, type HistoryLimits } from "./HistoryLimits.ts";

/**
 * Most that one run removes: the broker holds a stream's lock while it removes a prefix, and the
 * events are held here. The next run continues.
 */
const TRIM_EVENTS_MAX = 2_000;
const TRIM_BYTES_MAX = 16 * 1024 * 1024;

/** A base differs from what was stored. Nothing was trimmed. */
export class BaseDiffers extends Data.TaggedError("BaseDiffers")<{ readonly message: string }> {}

type Trimmed =
  /** No event may be removed. */
  | { readonly _tag: "Kept" }
  /** Another process has trimmed or erased it. */
  | { readonly _tag: "Overtaken" }
  | {
      readonly _tag: "Trimmed";
      readonly events: number;
      readonly bytes: number;
      /** There may be more to remove. */
      readonly more: boolean;
      /** The first event that is left. */
      readonly first: Sequence;
    };

export interface TrimPorts {
  readonly journal: JournalShape;
  readonly snapshots: SnapshotsShape;
  /** For this use only: an agent that is open in them must not be open elsewhere. */
  readonly databases: DatabasesShape;
  readonly time: Pick<TimeShape, "nowMs">;
  /** Absent: trimmed events are lost. */
  readonly archive?: Pick<ArchiveShape, "put" | "erase"> | undefined;
  /** Rule 7. Default false. */
  readonly leavesArchive?: boolean;
}

export interface TrimOptions {
  readonly limits: HistoryLimits;
  /**
   * The journal's first event when it was counted and weighed. If it is another now, somebody else
   * has trimmed or erased, and the numbers are too large: nothing is removed.
   */
  readonly first: Sequence;
  /** The number of the journal's events. */
  readonly events: number;
  /** Their bytes, where a limit needs them. */
  readonly bytes?: number | undefined;
}

/**
 * Rejects with `BrokerUnavailable`, `ArchiveUnavailable`, `BaseDiffers`, or `CorruptFrame` where
 * the journal or the bases are damaged. Whatever it rejects with, nothing is lost.
 */
export async function trimAgent(
  id: AgentId,
  ports: TrimPorts,
  options: TrimOptions,
): Promise<Trimmed> {
  const { journal } = ports;
  const first = await journal.first(id);
  const last = await journal.last(id);
  if (first === undefined || last === undefined || first.seq === last.seq) return KEPT;
  if (first.seq !== options.first) return OVERTAKEN;
  try {
    return await trimBetween(id, ports, { first, last, options });
  } catch (error) {
    if (!(error instanceof CorruptFrame)) throw error;
    // Rule 6: it is not damaged if its events were removed meanwhile.
    if ((await removedSince(id, first.seq, journal)) === undefined) throw error;
    return OVERTAKEN;
  }
}

async function trimBetween(
  id: AgentId,
  ports: TrimPorts,
  {
    first,
    last,
    options,
  }: {
    readonly first: StoredEvent;
    readonly last: StoredEvent;
    readonly options: TrimOptions;
  },
): Promise<Trimmed> {
  const { journal, snapshots, databases, archive } = ports;
  const stored = await snapshots.bases(id);
  const start = startOf(id, first, stored);
  if (start !== undefined && first.seq <= start.head.seq)
    return finish(ports, id, start.head.seq as Sequence); // a run before this one stored the base
  const previous = start?.head.archive;
  // Rule 7.
  if (archive === undefined && previous !== undefined && ports.leavesArchive !== true)
    throw new ArchiveUnavailable({
      message: `older history of ${addressKey(id)} is in an archive (${previous.segment}), but no archive is configured: pass its URL (--archive), or --archive none to continue without it`,
    });
  const { database } = databases.open(id);
  try {
    if (start !== undefined) database.restore(start.image);
    const image =
      start === undefined ? new AgentImage(id) : AgentImage.fromSnapshot(id, start.head);
    const stateBefore = image.state;
    const cut = await findCut(ports, { image, last, options });
    if (cut === undefined) return KEPT;
    const going = await replayTo(cut, ports, { image, database });
    const place =
      archive === undefined
        ? previous
        : await archive.put(id, { events: going, previous, stateBefore });
    const bytes = image.encode(database.image(), place);
    const revision = await storeBase(ports, { id, bytes, start, stored });
    if (revision === undefined || (await isErased(ports, { id, first, revision })))
      return OVERTAKEN;
    const events = await journal.trim(id, cut.keepFrom);
    return { _tag: "Trimmed", events, bytes: cut.bytes, more: cut.more, first: cut.keepFrom };
  } finally {
    database.close();
  }
}

const KEPT: Trimmed = { _tag: "Kept" };
const OVERTAKEN: Trimmed = { _tag: "Overtaken" };

/**
 * The base to begin from; undefined: none, from the first event. A base that is stored once was not
 * compared (rule 2), unless the journal begins behind it. Throws `CorruptFrame`.
 */
function startOf(
  id: AgentId,
  first: StoredEvent,
  stored: StoredBases | undefined,
): Base | undefined {
  const { after = 0 } = decodeEvent(first.data).head;
  // The journal is complete. A base older than its first event belongs to a life that was erased.
  const base =
    after === 0
      ? stored && settledBase(id, stored, first.seq)
      : stored && baseFor(id, stored, after);
  if (base === undefined && after !== 0)
    throw new CorruptFrame({
      message: `${addressKey(id)}: the journal begins with event ${first.seq} after event ${after}, and no base for it can be read`,
    });
  return base;
}

interface Cut {
  /** The first event that stays. */
  readonly keepFrom: Sequence;
  /** The events before it, and their bytes. */
  readonly events: number;
  readonly bytes: number;
  readonly more: boolean;
}

/** Undefined if no event may be removed, or none may be the first that stays. */
async function findCut(
  { journal, time }: TrimPorts,
  {
    image,
    last,
    options,
  }: { readonly image: AgentImage; readonly last: StoredEvent; readonly options: TrimOptions },
): Promise<Cut | undefined> {
  const { limits, events: eventsAll, bytes: bytesAll } = options;
  const size = { events: eventsAll, bytes: bytesAll };
  const nowMs = time.nowMs();
  let { parts } = image;
  let events = 0;
  let bytes = 0;
  let cut: Cut | undefined;
  for await (const stored of journal.read(image.id, rangeAfter(image, last.seq))) {
    const { seq, storedMs, data } = stored;
    const { head } = decodeStored(stored);
    const place = { storedMs, eventsBefore: events, bytesBefore: bytes };
    const goes = seq < last.seq && mayGo(limits, size, place, nowMs);
    const isFull = events >= TRIM_EVENTS_MAX || bytes >= TRIM_BYTES_MAX;
    // Rules 3 and 4.
    if (events > 0 && head.after !== undefined && parts === undefined)
      cut = { keepFrom: seq, events, bytes, more: goes };
    if (!goes || (isFull && cut !== undefined)) return cut;
    parts = OpenParts.after(parts, seq, head);
    events++;
    bytes += data.length;
  }
  return cut;
}

/** Replays the events before the cut. Resolves to them if there is an archive to store them. */
async function replayTo(
  { keepFrom }: Cut,
  { journal, archive }: TrimPorts,
  { image, database }: { readonly image: AgentImage; readonly database: AgentDatabase },
): Promise<ReadonlyArray<StoredEvent>> {
  const going: StoredEvent[] = [];
  for await (const stored of journal.read(image.id, rangeAfter(image, keepFrom))) {
    const { seq } = stored;
    const event = decodeStored(stored);
    if (seq >= keepFrom) {
      checkNothingIsMissing(image, seq, event.head.after);
      return going;
    }
    replayEvent(image, database, seq, event);
    if (archive !== undefined) going.push(stored);
  }
  throw new CorruptFrame({
    message: `event ${keepFrom} of ${addressKey(image.id)} was read, and is gone`,
  });
}

const rangeAfter = ({ seq }: AgentImage, toSeq: Sequence) => ({
  fromSeq: (seq + 1) as Sequence,
  toSeq,
});

/** Rules 2 and 5. Returns the base's revision; undefined when another process stored one. */
async function storeBase(
  ports: TrimPorts,
  {
    id,
    bytes,
    start,
    stored,
  }: {
    readonly id: AgentId;
    readonly bytes: Uint8Array;
    readonly start: Base | undefined;
    readonly stored: StoredBases | undefined;
  },
): Promise<number | undefined> {
  const { snapshots } = ports;
  let before: number | undefined = stored?.revision ?? 0;
  const newest = stored?.copies[0];
  // Only the last two bases are kept. If a run that ended early has stored one after the base that
  // the journal begins behind, another one would displace that base.
  if (start !== undefined && (newest === undefined || !equal(newest, start.bytes)))
    before = await snapshots.putBase(id, start.bytes, before);
  const revision = before === undefined ? undefined : await storeTwice(ports, id, bytes, before);
  if (revision === undefined) await forgetErased(ports, id);
  return revision;
}

async function storeTwice(
  { snapshots }: TrimPorts,
  id: AgentId,
  bytes: Uint8Array,
  before: number,
): Promise<number | undefined> {
  let revision = before;
  for (const copies of [1, 2]) {
    const stored = await snapshots.putBase(id, bytes, revision);
    const back = await snapshots.bases(id);
    if (stored === undefined || back?.revision !== stored) return undefined;
    for (let n = 0; n < copies; n++) {
      const copy = back.copies[n];
      if (copy === undefined || !equal(copy, bytes))
        throw new BaseDiffers({
          message: `the base of ${addressKey(id)} differs from what was stored; nothing was trimmed`,
        });
    }
    revision = stored;
  }
  return revision;
}

/** Carries out what an earlier run has begun: its base, of event `covered`, is stored twice. */
async function finish({ journal }: TrimPorts, id: AgentId, covered: Sequence): Promise<Trimmed> {
  let bytes = 0;
  for await (const { seq, data } of journal.read(id, { fromSeq: 1 as Sequence })) {
    if (seq > covered)
      return {
        _tag: "Trimmed",
        events: await journal.trim(id, seq),
        bytes,
        more: true,
        first: seq,
      };
    bytes += data.length;
  }
  return KEPT;
}

/** Rule 6. */
async function isErased(
  { journal, snapshots, archive }: TrimPorts,
  { id, first, revision }: { id: AgentId; first: StoredEvent; revision: number },
): Promise<boolean> {
  const now = await journal.first(id);
  if (now?.seq === first.seq) return false;
  if (now === undefined || bareEnd(now) === undefined) return true;
  await snapshots.removeBases(id, revision);
  await archive?.erase(id.class, new Set([id.name]), now.seq);
  return true;
}

/**
 * Removes what a run left that ended just after its agent was erased. Nothing of a life that has
 * begun since is removed. Rejects with `BrokerUnavailable` or `ArchiveUnavailable`.
 */
export async function forgetErased(
  { journal, snapshots, archive }: Pick<TrimPorts, "journal" | "snapshots" | "archive">,
  id: AgentId,
): Promise<void> {
  const first = await journal.first(id);
  if (first === undefined || bareEnd(first) === undefined) return;
  const bases = await snapshots.bases(id);
  // Checked now that the bases are read, so that bases of a later life stay.
  if (bases !== undefined && (await isErasedNow(journal, id)))
    await snapshots.removeBases(id, bases.revision);
  await archive?.erase(id.class, new Set([id.name]), first.seq);
}

/** Whether nothing but the end of its life is left. */
export async function isErasedNow(journal: JournalShape, id: AgentId): Promise<boolean> {
  const last = await journal.last(id);
  if (last === undefined || bareEnd(last) === undefined) return false;
  return (await journal.first(id))?.seq === last.seq;
}
