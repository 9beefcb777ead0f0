/**
 * The archive: segments of many agents' parts, by class and hour, over an `ArchiveStore`.
 *
 *     <namespace>/<class>/<date>/<hour>/<id>.jsonl.gz     gzip members one after the other, one for each part:
 *                                                         `zcat` reads the whole as JSON lines (`archiveRows`)
 *     <namespace>/<class>/<date>/<hour>/<id>.index.json   the place and checksum of each agent's part in it
 *     <namespace>/installation.json                       the installation that owns the archive
 *
 * 1. Parts that come at about the same time share a segment, by the time of archiving (UTC).
 * 2. The index is stored and read back, then the segment; only then `put` resolves. Every segment
 *    therefore has an index, by which `erase` finds the segment of a process that died in between.
 * 3. A part is read by its place (`ArchivePlace`): one range of one object, whose checksum is
 *    compared.
 * 4. `erase` finds an agent's parts by the indexes of its class. It replaces each by a gzip member
 *    of the same length without content, so that the other parts stay in place. Then the part's
 *    entry in the index loses its name, also if the segment did not follow in `WRITER_MS_MAX`. One
 *    process erases at a time (`alone`): two that rewrite one segment would each bring back what
 *    the other has erased.
 * 5. An archive belongs to the first installation that stores there. Any other is refused,
 *    because `erase` finds parts by agents' names, which mean nothing beyond an installation.
 * 6. An empty archive refuses an agent whose older parts are in another: neither would be complete.
 */
import { createHash } from "node:crypto";
import { promisify } from "node:util";
import { gunzip, gzip } from "node:zlib";
import { archiveRows, readBegin, readRows } from "../../core/retention/archiveRows.ts";
import { ArchiveUnavailable, type ArchiveShape } from "../../core/retention/Archive.ts";
import type { TimeShape } from "../../core/time/Time.ts";
import { addressKey, encodeToken, type AgentId, type Sequence } from "../../schemas/Address.ts";
import type { ErasedPart } from "../../schemas/ErasureReceipt.ts";
import { CorruptFrame } from "../../schemas/Frame.ts";
import type { ArchivePlace } from "../../schemas/Snapshot.ts";
import type { ArchiveStore } from "./ArchiveStore.ts";
import { emptyMember } from "./emptyMember.ts";
import { messageOf } from "../../core/errors/thrown.ts";

/** Parts that are archived within this time share a segment. */
const GATHER_MS = 100;
/** A segment of this size is stored at once. */
const SEGMENT_BYTES = 8 * 1024 * 1024;

/** Rule 4. Far longer than a disk or a bucket takes for a segment. */
const WRITER_MS_MAX = 3_600_000;

const INDEX_VERSION = 1;

interface IndexEntry extends Omit<ArchivePlace, "segment"> {
  /** Absent for a part that was erased. */
  readonly name?: string;
  readonly events?: number;
  readonly firstSeq?: number;
  readonly lastSeq?: number;
  readonly previous?: ArchivePlace;
}

interface Index {
  readonly v: typeof INDEX_VERSION;
  readonly class: string;
  readonly segment: string;
  readonly bytes: number;
  readonly parts: ReadonlyArray<IndexEntry>;
}

interface Waiting {
  readonly entry: Omit<IndexEntry, "offset">;
  readonly body: Uint8Array;
  readonly stored: (place: ArchivePlace) => void;
  readonly failed: (error: unknown) => void;
}

/** Runs `use` while no other process does. `still` rejects when that is no longer certain. */
export type Alone = <A>(use: (still: () => Promise<void>) => Promise<A>) => Promise<A>;

export interface SegmentArchiveOptions {
  readonly store: ArchiveStore;
  readonly namespace: string;
  /** Rule 5: identifies this installation. Default: the owner is not checked. */
  readonly installation?: () => Promise<string>;
  /** Rule 4. Default: no other process erases. */
  readonly alone?: Alone;
  readonly time: Pick<TimeShape, "nowMs" | "after" | "id">;
  /** Default: gzip, on another thread. */
  readonly gzip?: Gzip;
}

interface Gzip {
  readonly zip: (bytes: Uint8Array) => Buffer | Promise<Buffer>;
  readonly unzip: (bytes: Uint8Array) => Buffer | Promise<Buffer>;
}

const GZIP: Gzip = {
  zip: promisify<Uint8Array, Buffer>(gzip),
  unzip: promisify<Uint8Array, Buffer>(gunzip),
};

const ALONE: Alone = (use) => use(async () => undefined);

export class SegmentArchive implements ArchiveShape {
  private readonly gzip: Gzip;
  private readonly alone: Alone;
  private installation: string | undefined;
  /** Settles when no part is being encoded. One at a time: its rows are twice its events. */
  private encoding: Promise<unknown> = Promise.resolve();
  /** By class. */
  private readonly gathering = new Map<string, Waiting[]>();

  constructor(private readonly options: SegmentArchiveOptions) {
    this.gzip = options.gzip ?? GZIP;
    this.alone = options.alone ?? ALONE;
  }

  readonly put: ArchiveShape["put"] = async (id, part) => {
    const encoded = this.encoding.then(() => this.encode(id, part));
    this.encoding = encoded.catch(() => undefined);
    const body = await encoded;
    const { events, previous } = part;
    const entry = {
      name: id.name,
      bytes: body.length,
      sha256: sha256(body),
      events: events.length,
      firstSeq: events[0]!.seq,
      lastSeq: events.at(-1)!.seq,
      ...(previous === undefined ? {} : { previous }),
    };
    return new Promise((stored, failed) => this.gather(id.class, { entry, body, stored, failed }));
  };

  private async encode(id: AgentId, part: Parameters<ArchiveShape["put"]>[1]): Promise<Buffer> {
    const rows: Buffer[] = [];
    for (const row of archiveRows(id, part)) rows.push(Buffer.from(`${row}\n`));
    return this.gzip.zip(Buffer.concat(rows));
  }

  readonly read: ArchiveShape["read"] = async (id, place) =>
    readRows(id, await this.rowsAt(id, place));

  readonly begin: ArchiveShape["begin"] = async (id, place) =>
    readBegin(id, await this.rowsAt(id, place));

  /** Rule 3. */
  private async rowsAt(id: AgentId, place: ArchivePlace): Promise<string> {
    const found = await this.ask(() => this.options.store.get(place.segment, place));
    if (found === undefined || found.length !== place.bytes || sha256(found) !== place.sha256)
      throw new CorruptFrame({
        message: `the archived part of ${addressKey(id)} in ${place.segment} is ${found === undefined ? "gone" : "damaged"}: put the segment back from a copy of the archive`,
      });
    return (await this.gzip.unzip(found)).toString();
  }

  readonly checkErasable: ArchiveShape["checkErasable"] = async (className) => {
    await this.readOwner();
    for await (const _ of this.indexes(className));
  };

  readonly erase: ArchiveShape["erase"] = async (className, names, upTo) => {
    const erased: ErasedPart[] = [];
    const mineOf = ({ parts }: Index) =>
      parts.filter(
        ({ name, lastSeq = 0 }) =>
          name !== undefined && names.has(name) && lastSeq <= (upTo ?? Infinity),
      );
    for await (const { key, index } of this.indexes(className)) {
      if (mineOf(index).length === 0) continue;
      await this.readOwner();
      const gone = await this.alone(async (still) => {
        // Another process may have erased from the segment meanwhile.
        const now = await this.index(key);
        return this.eraseFrom(key, now, { mine: mineOf(now), still });
      });
      erased.push(...gone);
    }
    return erased;
  };

  readonly lastSeqsOf: ArchiveShape["lastSeqsOf"] = async (id) => {
    const seqs: Sequence[] = [];
    for await (const { index } of this.indexes(id.class))
      for (const { name, lastSeq } of index.parts)
        if (name === id.name) seqs.push(lastSeq as Sequence);
    return seqs;
  };

  readonly sha256At: ArchiveShape["sha256At"] = async (place) => {
    const found = await this.ask(() => this.options.store.get(place.segment, place));
    return found && sha256(found);
  };

  private gather(className: string, part: Waiting): void {
    let waiting = this.gathering.get(className);
    if (waiting === undefined) {
      this.gathering.set(className, (waiting = []));
      this.options.time.after(GATHER_MS, () => this.close(className));
    }
    waiting.push(part);
    const bytes = waiting.reduce((sum, { body }) => sum + body.length, 0);
    if (bytes >= SEGMENT_BYTES) this.close(className);
  }

  private close(className: string): void {
    const waiting = this.gathering.get(className);
    if (waiting === undefined) return;
    this.gathering.delete(className);
    this.store(className, waiting).catch((error: unknown) => {
      for (const { failed } of waiting) failed(error);
    });
  }

  /** Rule 2. */
  private async store(className: string, waiting: ReadonlyArray<Waiting>): Promise<void> {
    const { store, time } = this.options;
    await this.claim(waiting);
    const startMs = time.nowMs();
    const [date, hour] = new Date(startMs).toISOString().split(/[T:]/);
    const at = `${this.folder(className)}${date}/${hour}/${startMs}-${time.id()}`;
    const segment = `${at}.jsonl.gz`;
    let offset = 0;
    const parts = waiting.map(({ entry }) => {
      const placed = { ...entry, offset };
      offset += entry.bytes;
      return placed;
    });
    const body = Buffer.concat(waiting.map((part) => part.body));
    const index: Index = { v: INDEX_VERSION, class: className, segment, bytes: offset, parts };
    const encoded = new TextEncoder().encode(JSON.stringify(index));
    for (const [key, bytes] of [
      [`${at}.index.json`, encoded],
      [segment, body],
    ] as const) {
      if (time.nowMs() - startMs > WRITER_MS_MAX / 2)
        throw new ArchiveUnavailable({ message: `${store.name} takes too long to store ${key}` });
      await this.ask(() => store.put(key, bytes));
      const back = await this.ask(() => store.get(key));
      if (back === undefined || Buffer.compare(back, bytes) !== 0)
        throw new ArchiveUnavailable({
          message: `${key} in ${store.name} differs from what was stored`,
        });
    }
    for (const [n, { stored }] of waiting.entries()) {
      const { bytes, sha256: digest, offset: from } = parts[n]!;
      stored({ segment, offset: from, bytes, sha256: digest });
    }
  }

  private async *indexes(
    className: string,
  ): AsyncGenerator<{ readonly key: string; readonly index: Index }, void, void> {
    const keys = this.options.store.list(this.folder(className))[Symbol.asyncIterator]();
    for (;;) {
      const next = await this.ask(() => keys.next());
      if (next.done === true) return;
      const key = next.value;
      if (key.endsWith(".index.json")) yield { key, index: await this.index(key) };
    }
  }

  private async index(key: string): Promise<Index> {
    const index = parse(await this.ask(() => this.options.store.get(key))) as Partial<Index> | null;
    if (index?.v === INDEX_VERSION && Array.isArray(index.parts)) return index as Index;
    const fault =
      typeof index?.v === "number" && index.v !== INDEX_VERSION
        ? `is of version ${index.v}, and this release reads ${INDEX_VERSION}: use the release that wrote it`
        : "is damaged: restore it from a copy of the archive. What it names can be read, but not erased";
    throw new CorruptFrame({ message: `the index ${key} in ${this.options.store.name} ${fault}` });
  }

  /** Rules 5 and 6, before `waiting` is stored. */
  private async claim(waiting: ReadonlyArray<Waiting>): Promise<void> {
    const own = await this.readOwner();
    if (own === undefined) return;
    const { store } = this.options;
    const key = this.ownerKey;
    const note = JSON.stringify({ installation: own });
    for (const { entry } of waiting) await this.checkContinues(entry, { key, note });
    const noted = new TextEncoder().encode(note);
    await this.ask(() => store.put(key, noted));
    await this.readOwner();
  }

  /** Rule 5. Resolves to this installation if the archive belongs to none. */
  private async readOwner(): Promise<string | undefined> {
    const { store } = this.options;
    const own = (this.installation ??= await this.options.installation?.());
    if (own === undefined) return undefined;
    const found = await this.ask(() => store.get(this.ownerKey));
    if (found === undefined) return own;
    const { installation: owner } = (parse(found) ?? {}) as { readonly installation?: unknown };
    if (owner !== own)
      throw new ArchiveUnavailable({
        message: `the archive ${store.name} belongs to another installation (${String(owner)}; this one is ${own}): give each its own folder, prefix or namespace. If this one replaces it, as after a restore, remove ${this.ownerKey} there`,
      });
    return undefined;
  }

  private get ownerKey(): string {
    return `${encodeToken(this.options.namespace)}/installation.json`;
  }

  /** Rule 6. An archive begun by a release without rule 5 has the older parts, and is accepted. */
  private async checkContinues(
    { name, previous }: Waiting["entry"],
    { key, note }: { readonly key: string; readonly note: string },
  ): Promise<void> {
    const { store } = this.options;
    if (previous === undefined) return;
    if ((await this.ask(() => store.get(previous.segment, previous))) !== undefined) return;
    throw new ArchiveUnavailable({
      message: `the archive ${store.name} is empty, and older history of ${name} is in another one (${previous.segment}): specify that one, or copy its files here first. If they are lost, create ${key} here: ${note}`,
    });
  }

  /** Rule 4. */
  private async eraseFrom(
    key: string,
    index: Index,
    { mine, still }: { mine: ReadonlyArray<IndexEntry>; still: () => Promise<void> },
  ): Promise<ReadonlyArray<ErasedPart>> {
    const { store } = this.options;
    const { segment } = index;
    const stored = await this.ask(() => store.get(segment));
    // The segment is not stored yet, and its writer may be about to store it. The index already
    // lists what it will contain.
    if (stored === undefined && this.options.time.nowMs() - writtenMs(key) < WRITER_MS_MAX)
      return [];
    const body = stored && Buffer.from(stored);
    const erased = mine.map(({ offset, bytes, sha256: before }) => {
      const empty = emptyMember(bytes);
      if (body !== undefined) empty.copy(body, offset);
      return { segment, offset, bytes, sha256: before, now: sha256(empty) };
    });
    await still();
    if (body !== undefined) await this.ask(() => store.put(segment, body));
    const parts = index.parts.map((part) => {
      const now = erased.find(({ offset }) => offset === part.offset);
      return now === undefined ? part : { offset: now.offset, bytes: now.bytes, sha256: now.now };
    });
    const bytes = new TextEncoder().encode(JSON.stringify({ ...index, parts }));
    await still();
    await this.ask(() => store.put(key, bytes));
    return body === undefined ? [] : erased;
  }

  private folder(className: string): string {
    return `${encodeToken(this.options.namespace)}/${encodeToken(className)}/`;
  }

  private async ask<A>(use: () => Promise<A>): Promise<A> {
    try {
      return await use();
    } catch (error) {
      const why = messageOf(error);
      throw new ArchiveUnavailable({ message: `the archive ${this.options.store.name}: ${why}` });
    }
  }
}

/** When the writer of an index began, by its key. */
const writtenMs = (key: string): number => Number.parseInt(key.slice(key.lastIndexOf("/") + 1));

/** Null if `bytes` is undefined or not JSON. */
function parse(bytes: Uint8Array | undefined): unknown {
  try {
    return JSON.parse(Buffer.from(bytes ?? []).toString());
  } catch {
    return null;
  }
}

const sha256 = (bytes: Uint8Array): string => createHash("sha256").update(bytes).digest("hex");
