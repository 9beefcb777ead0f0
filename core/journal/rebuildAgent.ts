/**
 * Rebuilds an agent: from the local cache, else the newest readable snapshot, else nothing, and
 * then from the journal's tail (I2: all three lead to the same bytes). First phase of an agent's
 * life in memory; next: `ActiveAgent`. `state --at` and `sql --at` use it, too.
 *
 * - A snapshot that can't be read, or is later than the requested point, is skipped.
 * - A damaged event stops the rebuild with `CorruptFrame`: the agent is quarantined (I12).
 * - The first event of a trimmed journal names its predecessor. An image that is older than that
 *   predecessor, also one of an old local cache, is replaced by the agent's base.
 * - The journal's last event is read first, once, from the stream's leader: it is often the only
 *   one that the image lacks.
 * - If the agent is being erased, events before its end are missing, and the rebuild starts over
 *   from the end. Snapshots of the life before it may still exist, and are skipped.
 */
import type { AgentId, Sequence } from "../../schemas/Address.ts";
import { CorruptFrame, ifReadable } from "../../schemas/Frame.ts";
import { decodeEvent, type JournalEvent } from "../../schemas/JournalEvent.ts";
import {
  LocalImageCorrupt,
  type AgentDatabase,
  type DatabasesShape,
} from "../database/Databases.ts";
import type { JournalShape, StoredEvent } from "./Journal.ts";
import type { SnapshotsShape } from "./Snapshots.ts";
import { AgentImage } from "./AgentImage.ts";
import { applyEvent } from "./applyEvent.ts";
import { readSnapshot, type Base } from "./baseFor.ts";
import { decodeStored } from "./decodeStored.ts";
import { findBase, removedSince, trimmedBefore } from "./Beginnings.ts";
import { HistoryTrimmed } from "./HistoryTrimmed.ts";

export interface RebuildSources {
  readonly journal: JournalShape;
  readonly databases: DatabasesShape;
  /** Without it: full replay. */
  readonly snapshots?: SnapshotsShape;
  /** Stop after the last event with a sequence of at most this. */
  readonly atSeq?: number;
  /** Stop after the last event written at this time or before, milliseconds since the epoch. */
  readonly atTimeMs?: number;
  /** A clean local cache is used without the journal, which may have more (`Rebuilt.unproven`). */
  readonly trustsCache?: boolean;
}

interface Replayed {
  readonly events: number;
  readonly bytes: number;
  /** The host that wrote the last one. Absent without any. */
  readonly host?: string;
}

export interface Rebuilt {
  readonly image: AgentImage;
  readonly database: AgentDatabase;
  /** Events and bytes replayed from the journal, for the metrics. */
  readonly replayed: Replayed;
  /** Convenience for readers: `image`'s sequence, time and state. */
  readonly seq: Sequence;
  readonly time: number;
  readonly hasState: boolean;
  readonly state: unknown;
  /** The image is the local cache's, and the journal was not read: it may have later events. */
  readonly unproven: boolean;
}

/**
 * Rejects with `BrokerUnavailable`, `CorruptFrame`, or `HistoryTrimmed` where `atSeq` or `atTimeMs`
 * is before the journal's beginning. The caller closes `database`.
 */
export const rebuildAgent = (id: AgentId, sources: RebuildSources): Promise<Rebuilt> =>
  rebuildFrom(id, sources, 0);

/** `startSeq`: nothing before it is used. */
async function rebuildFrom(
  id: AgentId,
  sources: RebuildSources,
  startSeq: number,
): Promise<Rebuilt> {
  const whole = sources.atSeq === undefined && sources.atTimeMs === undefined;
  const { database, cached } = openImage(id, sources.databases, whole);
  try {
    if (cached !== undefined && sources.trustsCache === true)
      return rebuilt(cached, database, NOTHING, true);
    const last = whole ? await sources.journal.last(id) : undefined;
    const wanted = { ...sources, startSeq, last };
    const isNew = whole && last === undefined;
    const begin =
      cached ?? (isNew ? new AgentImage(id) : await restoreSnapshot(id, database, wanted));
    const isLast = whole && (last?.seq ?? 0) <= begin.seq;
    const end = isLast ? { image: begin, ...NOTHING } : await replay(begin, database, wanted);
    if ("removedSeq" in end) {
      database.close();
      sources.databases.discard(id);
      return rebuildFrom(id, sources, end.removedSeq);
    }
    const { image, ...replayed } = end;
    image.eventsSince += replayed.events;
    image.bytesSince += replayed.bytes;
    return rebuilt(image, database, replayed, false);
  } catch (error) {
    database.close();
    // Closing has removed a damaged local image: the second try uses snapshot and journal.
    if (error instanceof LocalImageCorrupt) return rebuildFrom(id, sources, startSeq);
    throw error;
  }
}

/** Opens the local cache if it can be read and the end is wanted (`whole`), else an empty file. */
function openImage(
  id: AgentId,
  databases: DatabasesShape,
  whole: boolean,
): { readonly database: AgentDatabase; readonly cached: AgentImage | undefined } {
  const { database, cached: stored } = databases.open(id);
  const cached = whole && stored ? decodeCore(id, stored) : undefined;
  if (!stored || cached !== undefined) return { database, cached };
  database.close();
  databases.discard(id);
  return { database: databases.open(id).database, cached };
}

/**
 * Replays the journal's tail. At a gap that a trim left, replay goes on from the base that covers
 * it. `removedSeq`: events before this one were removed meanwhile, and the rebuild starts over
 * from it.
 */
async function replay(
  begin: AgentImage,
  database: AgentDatabase,
  sources: RebuildSources & Tail,
): Promise<(Replayed & { readonly image: AgentImage }) | { readonly removedSeq: Sequence }> {
  const { id } = begin;
  const { journal, last } = sources;
  let image = begin;
  let replayed = await replayTail(image, database, sources);
  for (let trimmed = 0; "after" in replayed;) {
    // After another trim between the two reads there is a gap again, with a later base.
    const base = replayed.after > trimmed ? await baseOf(id, sources, replayed) : undefined;
    if (base === undefined) {
      const removed = await removedSince(id, replayed.seq, journal);
      if (removed === undefined) throw missing(image, replayed);
      return { removedSeq: removed.seq };
    }
    trimmed = replayed.after;
    database.restore(base.image);
    image = AgentImage.fromSnapshot(id, base.head);
    replayed = await replayTail(image, database, { ...sources, last: undefined });
  }
  if (last !== undefined && image.seq < last.seq) {
    const removed = await removedSince(id, last.seq, journal);
    if (removed !== undefined) return { removedSeq: removed.seq };
  }
  return { image, ...replayed };
}

const rebuilt = (
  image: AgentImage,
  database: AgentDatabase,
  replayed: Replayed,
  unproven: boolean,
): Rebuilt => ({
  image,
  database,
  replayed,
  seq: image.seq,
  time: image.timeMs,
  hasState: image.state !== undefined,
  state: image.state === undefined ? undefined : (JSON.parse(image.state) as unknown),
  unproven,
});

/**
 * The agent at `atSeq`, from an earlier point: replays the events between in its image and
 * database. Undefined if some of them were trimmed; both are then useless. Rejects as
 * `rebuildAgent`.
 */
export async function advanceAgent(
  { image, database }: Pick<Rebuilt, "image" | "database">,
  sources: Pick<RebuildSources, "journal">,
  atSeq: number,
): Promise<Rebuilt | undefined> {
  const wanted = { ...sources, startSeq: 0, atSeq, last: undefined };
  const replayed = await replayTail(image, database, wanted);
  return "after" in replayed ? undefined : rebuilt(image, database, replayed, false);
}

function decodeCore(
  id: AgentId,
  cached: { readonly seq: Sequence; readonly core: Uint8Array },
): AgentImage | undefined {
  // A cache is only a shortcut: snapshot and journal are used instead of one that can't be read.
  const head = readSnapshot(id, cached.core)?.head;
  return head?.seq === cached.seq ? AgentImage.fromSnapshot(id, head) : undefined;
}

async function restoreSnapshot(
  id: AgentId,
  database: AgentDatabase,
  { snapshots, startSeq, atSeq = Infinity, atTimeMs = Infinity }: RebuildSources & From,
): Promise<AgentImage> {
  if (snapshots === undefined) return new AgentImage(id);
  for await (const data of snapshots.newestFirst(id)) {
    // A later version is skipped, too: a flipped bit looks like one, and the journal has it all.
    const snapshot = readSnapshot(id, data);
    if (snapshot === undefined) continue;
    const { head, image } = snapshot;
    if (head.seq < startSeq || head.seq > atSeq || head.time > atTimeMs) continue;
    if (image.length > 0) database.restore(image);
    return AgentImage.fromSnapshot(id, head);
  }
  return new AgentImage(id);
}

const NOTHING: Replayed = { events: 0, bytes: 0 };

interface From {
  readonly startSeq: number;
}

interface Tail extends From {
  /** The journal's last event, where it is to be replayed to its end. */
  readonly last: StoredEvent | undefined;
}

/** An event whose predecessor is neither in the image nor in the journal. */
type Gap = Pick<HistoryTrimmed, "seq" | "after" | "timeMs">;

const missing = (image: AgentImage, { seq, after }: Gap): CorruptFrame =>
  new CorruptFrame({
    message: `event ${seq} follows event ${after}, which is missing, and no base of it can be read: the one before it here is ${image.seq}`,
  });

/**
 * The base that covers `gap`: the one at the predecessor that it names or, after a trim that was
 * stored and not carried out, at a later event. Undefined if none can be read.
 */
async function baseOf(
  id: AgentId,
  { journal, snapshots, atSeq = Infinity, atTimeMs = Infinity }: RebuildSources,
  { seq, after, timeMs }: Gap,
): Promise<Base | undefined> {
  const base = snapshots && (await findBase(id, after, { journal, snapshots }));
  if (base !== undefined && (base.head.seq > atSeq || base.head.time > atTimeMs))
    throw new HistoryTrimmed({ id, seq, after, timeMs });
  return base;
}

/** Returns the gap if it finds one; image and database are then useless. */
async function replayTail(
  image: AgentImage,
  database: AgentDatabase,
  { journal, startSeq, atSeq, atTimeMs, last }: Omit<RebuildSources, "databases"> & Tail,
): Promise<Replayed | Gap> {
  if (last !== undefined && isNext(image, last)) {
    const event = decodeStored(last);
    replayEvent(image, database, last.seq, event);
    return { events: 1, bytes: last.data.length, host: event.head.host };
  }
  let host: string | undefined;
  let events = 0;
  let bytes = 0;
  const toSeq = atSeq ?? last?.seq;
  const range = {
    fromSeq: Math.max(image.seq + 1, startSeq) as Sequence,
    ...(toSeq === undefined ? {} : { toSeq: toSeq as Sequence }),
  };
  for await (const stored of journal.read(image.id, range)) {
    const event = decodeStored(stored);
    const { after, time } = event.head;
    if (after !== undefined && after > image.seq) return { seq: stored.seq, after, timeMs: time };
    if (atTimeMs !== undefined && time > atTimeMs) break;
    replayEvent(image, database, stored.seq, event);
    ({ host } = event.head);
    events++;
    bytes += stored.data.length;
  }
  if (image.seq > 0) return { events, bytes, ...(host !== undefined && { host }) };
  const trimmed = await trimmedBefore(image.id, journal);
  return trimmed !== undefined && trimmed.seq >= startSeq ? trimmed : NOTHING;
}

/**
 * Whether the event is the only one that the image lacks, and is undamaged. (A damaged one is
 * reported when the journal is read.)
 */
const isNext = (image: AgentImage, { data }: StoredEvent): boolean =>
  ifReadable(() => decodeEvent(data))?.head.after === image.seq;

/** Applies one event in a replay. Throws `CorruptFrame` if its predecessor is missing. */
export function replayEvent(
  image: AgentImage,
  database: AgentDatabase,
  seq: Sequence,
  { head, delta }: JournalEvent,
): void {
  checkNothingIsMissing(image, seq, head.after);
  applyEvent(image, seq, head);
  if (head.kind === "destroyed") database.restore(new Uint8Array(0));
  if (delta.length > 0) database.apply(delta);
}

/**
 * A nats-server that finds a damaged message on its disk skips it silently. The events after it
 * would often apply, to a state that never was (I12).
 */
export function checkNothingIsMissing(
  image: Pick<AgentImage, "seq">,
  seq: number,
  after: number | undefined,
): void {
  if (after !== undefined && after !== image.seq)
    throw new CorruptFrame({
      message: `event ${seq} follows event ${after}, which is missing: the one before it here is ${image.seq}`,
    });
}
