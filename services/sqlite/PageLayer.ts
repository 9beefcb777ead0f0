/**
 * Pages written over an image: the writes of an open transaction, those since the last freeze, or
 * the frozen ones. A page that a layer does not hold shows through from below, up to `kept`; past
 * that, what lay below was truncated and reads as zeros until it is written again.
 *
 * Pages count from 1, as in SQLite. Fed by `PageFile`; merged downwards or dropped as a whole.
 */
import type { PageView } from "../../schemas/PageDelta.ts";
import { PAGE_SIZE, type PagePool, type Slot } from "./PagePool.ts";

export class PageLayer {
  private readonly pool: PagePool;
  readonly slots = new Map<number, Slot>();
  /** Size of the database as this layer shows it, in pages. */
  count: number;
  /** How many pages of what lies below still show through. */
  kept: number;

  constructor(pool: PagePool, below: number) {
    this.pool = pool;
    this.count = below;
    this.kept = below;
  }

  /** The page as this layer shows it; undefined when it shows through from below. */
  find(page: number): PageView | undefined {
    const slot = this.slots.get(page);
    if (slot !== undefined) return this.pool.view(slot);
    return page > this.kept ? this.pool.zeros : undefined;
  }

  /** Numbers of the pages that it holds, ascending: SQLite nearly always writes them so. */
  pages(): ReadonlyArray<number> {
    const pages = [...this.slots.keys()];
    const ascend = pages.every((page, n) => n === 0 || pages[n - 1]! < page);
    return ascend ? pages : pages.toSorted((a, b) => a - b);
  }

  /** Takes over the slot. */
  put(page: number, slot: Slot): void {
    const old = this.slots.get(page);
    if (old !== undefined) this.pool.give(old);
    this.slots.set(page, slot);
    if (page > this.count) this.count = page;
  }

  truncate(count: number): void {
    if (count < this.count)
      for (const [page, slot] of this.slots)
        if (page > count) {
          this.pool.give(slot);
          this.slots.delete(page);
        }
    this.count = count;
    this.kept = Math.min(this.kept, count);
  }

  /** Puts an upper layer's pages into this one; the upper is of no use then. */
  merge(upper: PageLayer): void {
    if (upper.kept < this.count) this.truncate(upper.kept);
    for (const [page, slot] of upper.slots) this.put(page, slot);
    this.count = upper.count;
  }

  drop(): void {
    for (const slot of this.slots.values()) this.pool.give(slot);
    this.slots.clear();
  }

  get bytes(): number {
    return this.slots.size * PAGE_SIZE;
  }
}
