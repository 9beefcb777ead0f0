/**
 * Pages written over an image: the writes of an open transaction, those since the last freeze, or
 * the frozen ones. Up to page `kept`, a page that the layer does not hold is read from the layer
 * below. Past `kept` the layer below was truncated, and pages read as zeros until they are written.
 *
 * Pages count from 1, as in SQLite. Fed by `PageFile`; merged into the layer below, or dropped.
 */
import type { PageView } from "../../schemas/PageDelta.ts";
import { PAGE_SIZE, type PagePool, type Slot } from "./PagePool.ts";

export class PageLayer {
  readonly slots = new Map<number, Slot>();
  /** Size of the database as this layer shows it, in pages. */
  count: number;
  /** Number of pages of the layer below that are still visible. */
  kept: number;

  constructor(
    private readonly pool: PagePool,
    below: number,
  ) {
    this.count = below;
    this.kept = below;
  }

  /** The page as this layer shows it, or undefined if it is read from the layer below. */
  find(page: number): PageView | undefined {
    const slot = this.slots.get(page);
    if (slot !== undefined) return this.pool.view(slot);
    return page > this.kept ? this.pool.zeros : undefined;
  }

  /** Numbers of this layer's pages, ascending. Rarely sorted: SQLite mostly writes in order. */
  pages(): ReadonlyArray<number> {
    const pages = [...this.slots.keys()];
    const ascend = pages.every((page, n) => n === 0 || pages[n - 1]! < page);
    return ascend ? pages : pages.toSorted((a, b) => a - b);
  }

  /** Sets a page. The layer owns the slot from then on. */
  put(page: number, slot: Slot): void {
    const old = this.slots.get(page);
    if (old !== undefined) this.pool.free(old);
    this.slots.set(page, slot);
    if (page > this.count) this.count = page;
  }

  truncate(count: number): void {
    if (count < this.count)
      for (const [page, slot] of this.slots)
        if (page > count) {
          this.pool.free(slot);
          this.slots.delete(page);
        }
    this.count = count;
    this.kept = Math.min(this.kept, count);
  }

  /** Moves the pages of the layer above into this one. That must not be used afterwards. */
  merge(upper: PageLayer): void {
    if (upper.kept < this.count) this.truncate(upper.kept);
    for (const [page, slot] of upper.slots) this.put(page, slot);
    this.count = upper.count;
  }

  drop(): void {
    for (const slot of this.slots.values()) this.pool.free(slot);
    this.slots.clear();
  }

  get bytes(): number {
    return this.slots.size * PAGE_SIZE;
  }
}
