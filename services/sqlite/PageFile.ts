/**
 * The file that SQLite reads and writes: layers of written pages over the committed image.
 *
 *     transaction   writes inside `transaction()`, until it ends
 *     overlay       writes since the last freeze
 *     frozen        the delta in flight, until `committed()`
 *     image         committed pages
 *
 * 1. A layer is never changed by the layers above it. The content below the overlay is therefore
 *    the pre-image of each of its pages, and `freeze` compares written pages only, without copies.
 * 2. A freeze during a transaction takes only what was written before it, because the transaction
 *    has a separate layer. A delta never holds half a transaction.
 * 3. An error is kept in `failure` and reported to SQLite as an I/O error, because no exception may
 *    cross the engine's stack. The caller of SQLite then throws it.
 *
 * Fed by `pageVfs` (reads, writes) and `SqliteDatabase` (freeze, commit).
 */
import type { PageDeltaWriter, PageView } from "../../schemas/PageDelta.ts";
import type { PageImage } from "./PageImage.ts";
import { PageLayer } from "./PageLayer.ts";
import { PAGE_SIZE, pageBytes, type PagePool } from "./PagePool.ts";

/** Where the schema's b-tree begins in page 1, with its type (SQLite's file format). */
const SCHEMA_AT = 100;
const TABLE_LEAF = 0x0d;

export class PageFile {
  private transaction: PageLayer | undefined;
  private overlay: PageLayer | undefined;
  private frozen: PageLayer | undefined;
  /** Rule 3. */
  failure: unknown;
  /** Number of writes so far. It changes when a statement writes. */
  writes = 0;
  /** A write that needs more uncommitted memory than this makes its statement fail. */
  uncommittedBytesMax = Infinity;
  /** True once a write was refused for that limit. SQLite's further writes undo the statement. */
  overflowed = false;

  constructor(
    readonly image: PageImage,
    private readonly pool: PagePool,
    private readonly writer: PageDeltaWriter,
  ) {}

  /** Size of the database as SQLite sees it, in pages. */
  get count(): number {
    return (this.transaction ?? this.overlay ?? this.frozen ?? this.image).count;
  }

  /** Whether there are no layers over the image. */
  get settled(): boolean {
    return !this.dirty && this.frozen === undefined;
  }

  get dirty(): boolean {
    return this.overlay !== undefined || this.transaction !== undefined;
  }

  /** Bytes in memory. */
  get bytes(): number {
    const { transaction, overlay, frozen } = this;
    return (
      this.image.bytes + (transaction?.bytes ?? 0) + (overlay?.bytes ?? 0) + (frozen?.bytes ?? 0)
    );
  }

  /** Copies bytes from `offset` to `into`, and zeros past the end. False: it reached past it. */
  read(into: Uint8Array, to: number, length: number, offset: number): boolean {
    let at = 0;
    while (at < length) {
      const position = offset + at;
      const within = position % PAGE_SIZE;
      const size = Math.min(PAGE_SIZE - within, length - at);
      const { bytes, at: from } = this.view((position - within) / PAGE_SIZE + 1);
      into.set(bytes.subarray(from + within, from + within + size), to + at);
      at += size;
    }
    return offset + length <= this.count * PAGE_SIZE;
  }

  /**
   * As `AgentDatabase`. A small schema is one b-tree leaf in page 1, and has the names as they are:
   * only its `sql` texts are long enough to overflow.
   */
  mayHaveTable(text: string): boolean {
    if (this.count === 0) return false;
    const { bytes, at } = this.view(1);
    const page = Buffer.from(bytes.buffer, bytes.byteOffset + at, PAGE_SIZE);
    return page[SCHEMA_AT] !== TABLE_LEAF || page.includes(text, SCHEMA_AT, "latin1");
  }

  /** Returns false if `uncommittedBytesMax` refused the write. */
  write(from: Uint8Array, start: number, length: number, offset: number): boolean {
    if (this.uncommittedBytesMax < Infinity && !this.overflowed && this.isFullFor(offset)) {
      this.overflowed = true;
      return false;
    }
    this.writes++;
    let at = 0;
    while (at < length) {
      const position = offset + at;
      const within = position % PAGE_SIZE;
      const size = Math.min(PAGE_SIZE - within, length - at);
      const page = (position - within) / PAGE_SIZE + 1;
      const to = this.writable(page, size === PAGE_SIZE);
      to.bytes.set(from.subarray(start + at, start + at + size), to.at + within);
      at += size;
    }
    return true;
  }

  truncate(bytes: number): void {
    const count = Math.ceil(bytes / PAGE_SIZE);
    if (count !== this.count) this.top().truncate(count);
  }

  beginTransaction(): void {
    this.transaction = new PageLayer(this.pool, this.count);
  }

  endTransaction(keep: boolean): void {
    const layer = this.transaction;
    this.transaction = undefined;
    if (layer === undefined) return;
    // An equal length does not suffice: pages that were truncated and grew again read as zeros.
    const isSame =
      layer.slots.size === 0 && layer.kept === this.count && layer.count === this.count;
    if (!keep || isSame) layer.drop();
    else if (this.overlay === undefined) this.overlay = layer;
    else this.overlay.merge(layer);
  }

  /** Returns the delta of the overlay, which is then in flight, or undefined if no byte changed. */
  freeze(): { readonly delta: Uint8Array; readonly pages: number } | undefined {
    if (this.frozen !== undefined) throw new Error("freeze: a delta is in flight already");
    const layer = this.overlay;
    if (layer === undefined) return undefined;
    const { image, pool, writer } = this;
    writer.begin();
    for (const page of layer.pages()) {
      const slot = layer.slots.get(page)!;
      const before = page <= layer.kept ? image.view(page) : pool.zeros;
      if (writer.add(page, before, pool.view(slot))) continue;
      layer.slots.delete(page);
      pool.free(slot);
    }
    this.overlay = undefined;
    if (layer.slots.size === 0 && layer.kept === image.count && layer.count === image.count)
      return undefined;
    this.frozen = layer;
    const counts = { pagesBefore: image.count, pagesKept: layer.kept, pages: layer.count };
    return { delta: writer.finish(counts), pages: layer.count };
  }

  committed(): void {
    if (this.frozen === undefined) throw new Error("committed: no delta is in flight");
    this.image.merge(this.frozen);
    this.frozen = undefined;
  }

  /** Discards everything that is not committed. */
  abandon(): void {
    for (const layer of [this.transaction, this.overlay, this.frozen]) layer?.drop();
    this.transaction = this.overlay = this.frozen = undefined;
  }

  private isFullFor(offset: number): boolean {
    const { transaction, overlay } = this;
    const page = Math.floor(offset / PAGE_SIZE) + 1;
    if (transaction?.slots.has(page) === true || overlay?.slots.has(page) === true) return false;
    const uncommitted = (transaction?.bytes ?? 0) + (overlay?.bytes ?? 0);
    return uncommitted + PAGE_SIZE > this.uncommittedBytesMax;
  }

  private view(page: number): PageView {
    const { transaction, overlay, frozen } = this;
    return (
      transaction?.find(page) ?? overlay?.find(page) ?? frozen?.find(page) ?? this.image.view(page)
    );
  }

  private top(): PageLayer {
    return (
      this.transaction ??
      (this.overlay ??= new PageLayer(this.pool, (this.frozen ?? this.image).count))
    );
  }

  /** The page in the top layer. With `whole`, without its old content: all is overwritten. */
  private writable(page: number, whole: boolean): PageView {
    const layer = this.top();
    const known = layer.slots.get(page);
    if (known !== undefined) return this.pool.view(known);
    const old = whole ? undefined : this.view(page);
    const slot = this.pool.take();
    const view = this.pool.view(slot);
    if (old !== undefined) view.bytes.set(pageBytes(old), view.at);
    layer.put(page, slot);
    return view;
  }
}
