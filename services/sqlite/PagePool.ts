/**
 * A slab allocator for pages: 4 KiB slots, identified by number, taken and freed explicitly.
 *
 * A buffer per page would take a quarter more memory and make the garbage collector visit every
 * page of every agent. A slab whose slots are all free is dropped, so that the memory of a large
 * transaction is returned. Used by `PageLayer` and `PageImage`; each `Databases` layer has one.
 */
import type { PageView } from "../../schemas/PageDelta.ts";

/** SQLite's default page size and the usual block of filesystems. Set before the first table. */
export const PAGE_SIZE = 4096;

/** A page's place in the pool. */
export type Slot = number;

/** Pages per slab: 256 KiB, small enough that one remaining page wastes little. */
const SLAB_PAGES = 64;
const SLAB_SHIFT = 6;

interface Slab {
  readonly bytes: Uint8Array;
  readonly words: Int32Array;
  readonly free: number[];
}

export class PagePool {
  private readonly slabs: (Slab | undefined)[] = [];
  /** Numbers of the slabs with free slots; the last is filled first. */
  private roomy: number[] = [];
  /**
   * A slab whose slots are all free. One is kept, so that taking and freeing a single page in turn
   * does not allocate each time.
   */
  private spare: number | undefined;
  /** Number of slots in use: 0 when every database is closed. */
  used = 0;
  /** Number of slots in memory that are not in use. */
  unused = 0;
  /** A page of zeros, for pages that were never written. */
  readonly zeros: PageView = viewOf(new ArrayBuffer(PAGE_SIZE));
  /** A page of temporary memory, valid until the next use. */
  readonly scratch: PageView = viewOf(new ArrayBuffer(PAGE_SIZE));
  /** The image whose page `scratch` is, and that page's number. */
  scratchImage: object | undefined;
  scratchPage = 0;

  /** Takes a slot. Its content is undefined. */
  take(): Slot {
    this.used++;
    const number = this.roomy.at(-1) ?? this.addSlab();
    const { free } = this.slabs[number]!;
    if (number === this.spare) this.spare = undefined;
    this.unused--;
    const slot = free.pop()!;
    if (free.length === 0) this.roomy.pop();
    return (number << SLAB_SHIFT) | slot;
  }

  /** Frees a slot that was taken. */
  free(slot: Slot): void {
    this.used--;
    this.unused++;
    const number = slot >> SLAB_SHIFT;
    const slab = this.slabs[number]!;
    slab.free.push(slot & (SLAB_PAGES - 1));
    if (slab.free.length === 1) this.roomy.push(number);
    if (slab.free.length < SLAB_PAGES) return;
    if (this.spare === undefined) this.spare = number;
    else this.dropSlab(number);
  }

  view(slot: Slot): PageView {
    const slab = this.slabs[slot >> SLAB_SHIFT]!;
    return { bytes: slab.bytes, words: slab.words, at: (slot & (SLAB_PAGES - 1)) * PAGE_SIZE };
  }

  private addSlab(): number {
    let number = this.slabs.indexOf(undefined);
    if (number < 0) number = this.slabs.length;
    const { bytes, words } = viewOf(new ArrayBuffer(SLAB_PAGES * PAGE_SIZE));
    const free = Array.from({ length: SLAB_PAGES }, (_, i) => SLAB_PAGES - 1 - i);
    this.slabs[number] = { bytes, words, free };
    this.unused += SLAB_PAGES;
    this.roomy.push(number);
    return number;
  }

  private dropSlab(number: number): void {
    this.slabs[number] = undefined;
    this.unused -= SLAB_PAGES;
    this.roomy = this.roomy.filter((other) => other !== number);
  }
}

/** The bytes of a page, as a view. */
export const pageBytes = (view: PageView): Uint8Array =>
  view.bytes.subarray(view.at, view.at + PAGE_SIZE);

function viewOf(buffer: ArrayBuffer): PageView {
  return { bytes: new Uint8Array(buffer), words: new Int32Array(buffer), at: 0 };
}
