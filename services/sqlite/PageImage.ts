/**
 * The committed image of one database: the pages as the journal's events have them. Recently
 * changed pages are in memory, the rest in the agent's cache file. Without a file, all are in
 * memory.
 *
 * 1. A page in memory is newer than the file's. The checksum of a page in the file is kept here,
 *    and every read of the page is verified. A page in neither was never written and reads as
 *    zeros.
 * 2. Past `residentBytesMax`, the least recently changed pages move to the file. If the disk
 *    refuses, they stay in memory, the agent continues, and the next commit tries again.
 *
 * Clean pages are not kept here: SQLite's own cache, one layer up, has the pages that are read
 * often. Fed by `PageFile` (`apply`, `merge`); feeds reads, pre-images, snapshots and the local
 * cache.
 */
import { crc32 } from "node:zlib";
import type { AgentId, Sequence } from "../../schemas/Address.ts";
import { LocalImageCorrupt } from "../../core/database/Databases.ts";
import {
  checkPagesBefore,
  decodePageDelta,
  IMAGE_BYTES_MAX,
  type PageView,
} from "../../schemas/PageDelta.ts";
import { CorruptFrame } from "../../schemas/Frame.ts";
import type { CacheFile } from "./CacheFile.ts";
import type { PageLayer } from "./PageLayer.ts";
import { PAGE_SIZE, pageBytes, type PagePool, type Slot } from "./PagePool.ts";
import { messageOf } from "../../core/errors/thrown.ts";

/** Memory per agent for committed pages: small databases use the disk only when they close. */
export const RESIDENT_BYTES_MAX = 256 * 1024;
/** Share of the resident pages that moves to the file at once: one write has several pages. */
const SPILL_SHARE = 0.25;
/** The most pages of one read or write: 1 MiB. */
const RUN_PAGES = 256;

/** A page in memory. `changed` is the count of changes at its last change. */
interface Resident {
  slot: Slot;
  changed: number;
}

export class PageImage {
  private readonly id: AgentId;
  private readonly pool: PagePool;
  private readonly file: CacheFile | undefined;
  private readonly residentMax: number;
  /**
   * Pages newer than the file's. Not ordered by use, since a map whose entries move to its end is
   * rehashed every few moves.
   */
  private readonly resident = new Map<number, Resident>();
  private changes = 0;
  /** Checksums, by page, of the pages in the file; valid where `inFile` is 1. */
  private crcs = new Uint32Array(0);
  private inFile = new Uint8Array(0);
  private pageCount = 0;
  /** The disk's last error. */
  private refused: unknown;

  constructor(options: {
    readonly id: AgentId;
    readonly pool: PagePool;
    readonly file: CacheFile | undefined;
    readonly residentBytesMax: number;
    /** Checksums of the pages in a clean cache file, page 1 first. */
    readonly crcs?: Uint32Array;
  }) {
    this.id = options.id;
    this.pool = options.pool;
    this.file = options.file;
    this.residentMax = Math.max(1, Math.floor(options.residentBytesMax / PAGE_SIZE));
    const { crcs } = options;
    if (crcs === undefined) return;
    this.resize(crcs.length);
    this.crcs.set(crcs, 1);
    this.inFile.fill(1, 1, crcs.length + 1);
  }

  /** Size of the image, in pages. */
  get count(): number {
    return this.pageCount;
  }

  get bytes(): number {
    return this.resident.size * PAGE_SIZE + this.crcs.length * 5;
  }

  /** The page, valid until the next call. Throws `LocalImageCorrupt`. */
  view(page: number): PageView {
    const known = this.resident.get(page);
    if (known !== undefined) return this.pool.view(known.slot);
    if (page > this.pageCount || this.inFile[page] === 0) return this.pool.zeros;
    const { pool } = this;
    // SQLite reads page 1 twice when it opens, after the wake has looked into it.
    if (pool.scratchImage === this && pool.scratchPage === page) return pool.scratch;
    pool.scratchImage = undefined;
    this.readRun(page, pool.scratch.bytes);
    pool.scratchImage = this;
    pool.scratchPage = page;
    return pool.scratch;
  }

  /** Moves a layer's pages into the image. The layer must not be used afterwards. */
  merge(layer: PageLayer): void {
    this.resize(layer.kept);
    this.resize(layer.count);
    for (const [page, slot] of layer.slots) this.put(page, slot);
    this.spill();
  }

  /** Applies a delta. Throws `LocalImageCorrupt`, or `CorruptFrame` with nothing changed. */
  apply(bytes: Uint8Array): void {
    const delta = decodePageDelta(bytes);
    if (delta.pageSize !== PAGE_SIZE)
      throw new CorruptFrame({
        message: `page delta of page size ${delta.pageSize}, not ${PAGE_SIZE}`,
      });
    checkPagesBefore(delta, this.pageCount);
    this.resize(delta.pagesKept);
    this.resize(delta.pages);
    let current = 0;
    let view = this.pool.zeros;
    delta.forEach((page, offset, from, length) => {
      if (page !== current) {
        current = page;
        view = this.writable(page);
      }
      const to = view.at + offset;
      // A short loop is faster than creating the view that `set` needs.
      if (length <= 16) for (let i = 0; i < length; i++) view.bytes[to + i] = bytes[from + i]!;
      else view.bytes.set(bytes.subarray(from, from + length), to);
    });
    this.spill();
  }

  /** Replaces the image. Throws `CorruptFrame` if it is too large or no whole number of pages. */
  replace(image: Uint8Array): void {
    if (image.length % PAGE_SIZE !== 0 || image.length > IMAGE_BYTES_MAX)
      throw new CorruptFrame({ message: `an image of ${image.length} bytes is not a database's` });
    this.resize(0);
    this.resize(image.length / PAGE_SIZE);
    let page = 1;
    if (this.pageCount > this.residentMax)
      while (page <= this.pageCount) {
        const run = image.subarray((page - 1) * PAGE_SIZE, (page - 1 + RUN_PAGES) * PAGE_SIZE);
        if (!this.writeRun(page, run)) break;
        page += RUN_PAGES;
      }
    for (; page <= this.pageCount; page++) {
      const slot = this.pool.take();
      const { bytes, at } = this.pool.view(slot);
      bytes.set(image.subarray((page - 1) * PAGE_SIZE, page * PAGE_SIZE), at);
      this.put(page, slot);
    }
  }

  /** Returns a copy of all pages, page 1 first. Throws `LocalImageCorrupt`. */
  copy(): Uint8Array {
    const image = new Uint8Array(this.pageCount * PAGE_SIZE);
    for (let page = 1; page <= this.pageCount;) {
      let end = page;
      while (end <= this.pageCount && end - page < RUN_PAGES && this.inFile[end] === 1) end++;
      if (end > page)
        this.readRun(page, image.subarray((page - 1) * PAGE_SIZE, (end - 1) * PAGE_SIZE));
      else image.set(pageBytes(this.view(end++)), (page - 1) * PAGE_SIZE);
      page = end;
    }
    return image;
  }

  /** Completes the local cache: writes the missing pages and the meta. Throws the disk's error. */
  save(seq: Sequence, core: Uint8Array): void {
    const { file } = this;
    if (file === undefined) return;
    const missing: number[] = [];
    for (let page = 1; page <= this.pageCount; page++)
      if (this.inFile[page] === 0) missing.push(page);
    if (!this.writePages(missing)) throw this.refused;
    file.writeMeta({ seq, core, crcs: this.crcs.slice(1, this.pageCount + 1) });
    file.release();
  }

  /** Frees the memory. The caller keeps or removes the file. */
  drop(): void {
    if (this.pool.scratchImage === this) this.pool.scratchImage = undefined;
    this.resize(0);
    this.crcs = new Uint32Array(0);
    this.inFile = new Uint8Array(0);
  }

  private put(page: number, slot: Slot): void {
    const known = this.resident.get(page);
    const changed = ++this.changes;
    if (known === undefined) this.resident.set(page, { slot, changed });
    else {
      this.pool.free(known.slot);
      known.slot = slot;
      known.changed = changed;
    }
    this.inFile[page] = 0;
  }

  /** The page in memory, for changes in place. */
  private writable(page: number): PageView {
    const known = this.resident.get(page);
    if (known !== undefined) {
      known.changed = ++this.changes;
      return this.pool.view(known.slot);
    }
    const from = this.view(page);
    const slot = this.pool.take();
    const to = this.pool.view(slot);
    to.bytes.set(pageBytes(from), to.at);
    this.put(page, slot);
    return to;
  }

  private resize(count: number): void {
    if (count < this.pageCount) {
      for (const [page, { slot }] of this.resident)
        if (page > count) {
          this.pool.free(slot);
          this.resident.delete(page);
        }
      this.inFile.fill(0, count + 1, this.pageCount + 1);
    }
    this.pageCount = count;
    if (count < this.inFile.length) return;
    const length = Math.max(count + 1, this.inFile.length * 2);
    const crcs = new Uint32Array(length);
    crcs.set(this.crcs);
    this.crcs = crcs;
    const inFile = new Uint8Array(length);
    inFile.set(this.inFile);
    this.inFile = inFile;
  }

  /** Rule 2. */
  private spill(): void {
    if (this.file === undefined || this.resident.size <= this.residentMax) return;
    const count = this.resident.size - Math.floor(this.residentMax * (1 - SPILL_SHARE));
    const longestUnchanged = [...this.resident].toSorted(([, a], [, b]) => a.changed - b.changed);
    const pages = longestUnchanged.slice(0, count).map(([page]) => page);
    this.writePages(pages.toSorted((a, b) => a - b));
  }

  /** Writes ascending pages to the file, consecutive ones together. False: the disk refused. */
  private writePages(pages: ReadonlyArray<number>): boolean {
    let from = 0;
    while (from < pages.length) {
      let to = from + 1;
      while (to < pages.length && pages[to] === pages[to - 1]! + 1 && to - from < RUN_PAGES) to++;
      const first = pages[from]!;
      const run = new Uint8Array((to - from) * PAGE_SIZE);
      for (let i = 0; i < to - from; i++) run.set(pageBytes(this.view(first + i)), i * PAGE_SIZE);
      if (!this.writeRun(first, run)) return false;
      from = to;
    }
    return true;
  }

  private writeRun(first: number, run: Uint8Array): boolean {
    if (this.file === undefined) return false;
    try {
      this.file.write(first, run);
    } catch (error) {
      // Rule 2. `save`, which has to report the error, throws it.
      this.refused = error;
      return false;
    }
    this.pool.scratchImage = undefined;
    for (let i = 0; i * PAGE_SIZE < run.length; i++) {
      const page = first + i;
      this.crcs[page] = crc32(run.subarray(i * PAGE_SIZE, (i + 1) * PAGE_SIZE));
      this.inFile[page] = 1;
      const known = this.resident.get(page);
      if (known === undefined) continue;
      this.pool.free(known.slot);
      this.resident.delete(page);
    }
    return true;
  }

  /** Rule 1. */
  private readRun(first: number, into: Uint8Array): void {
    try {
      this.file!.read(first, into);
    } catch (error) {
      throw this.corrupt(first, messageOf(error));
    }
    for (let i = 0; i * PAGE_SIZE < into.length; i++)
      if (crc32(into.subarray(i * PAGE_SIZE, (i + 1) * PAGE_SIZE)) !== this.crcs[first + i])
        throw this.corrupt(first + i, "its checksum does not match");
  }

  private corrupt(page: number, reason: string): LocalImageCorrupt {
    return new LocalImageCorrupt({
      id: this.id,
      page,
      message: `local cache of ${this.id.class}/${this.id.name}, page ${page}: ${reason}`,
    });
  }
}
