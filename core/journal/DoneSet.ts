/**
 * The inputs that an agent has done, by dedup key: what makes effects exactly-once, whatever the
 * broker delivers again. Part of `AgentImage`: only applied events change it, and snapshots contain
 * it.
 *
 * 1. A key is in the set from the event that did it until it is older than the retention or pushed
 *    out by the count limit, oldest first.
 * 2. Both limits depend only on the journal (event times), so replay produces the same set.
 * 3. An event may have the time of a wrong clock. The newest keys stay whatever their age, and one
 *    event removes few: a provider's retry, which comes soon, still finds its input's key.
 *
 * Fed by `applyEvent`; read by the mailbox before a durable input runs.
 */
import { withEntry, without } from "../collections/sparse.ts";

/** Providers retry for up to three days; GitHub's manual redelivery too (`webhooks.md`). */
export const DONE_RETENTION_MS = 7 * 24 * 3600 * 1000;
/** About 5 MB for the busiest agents; an agent would need 25,000 inputs in 7 days to reach it. */
const DONE_COUNT_MAX = 25_000;
/** Rule 3. 6 kB for an agent whose last inputs are older. */
export const DONE_COUNT_MIN = 32;
/** Rule 3. More than most events add, and a large set of an agent that became quiet shrinks. */
const REMOVED_MIN = 2;
/** One in so many: 44 events halve a set. */
const REMOVED_SHARE = 64;

/** Prefix of the keys of inputs that exhausted their attempts (`deadInputs`). */
export const DEAD_PREFIX = "dead:";
/** Prefix of the keys of restores (`core/restore/restoreEvent`). */
export const RESTORE_PREFIX = "restore:";

interface Done {
  readonly timeMs: number;
  readonly seq: number;
}

export class DoneSet {
  /** Oldest first. */
  private entries: Map<string, Done> | undefined;
  /** Whether the set may have a dead input: most agents never have one, and skip the look-up. */
  hasDead = false;

  get size(): number {
    return this.entries?.size ?? 0;
  }

  /** Journal sequence of the event that did it; undefined when it is not known to be done. */
  seqOf(key: string): number | undefined {
    return this.entries?.get(key)?.seq;
  }

  /** Sequence of the last restore in the set; undefined without one. Reads the whole set. */
  get restoredAt(): number | undefined {
    let last: number | undefined;
    for (const [key, { seq }] of this.entries ?? []) if (key.startsWith(RESTORE_PREFIX)) last = seq;
    return last;
  }

  /** As `seqOf`, of the first of these that is done. */
  seqOfAny(key: string, others: ReadonlyArray<string> = []): number | undefined {
    let seq = this.seqOf(key);
    for (const other of others) seq ??= this.seqOf(other);
    return seq;
  }

  add(key: string, timeMs: number, seq: number): void {
    const { size } = this;
    this.put(key, timeMs, seq);
    if (this.size > size) return;
    // The key was already in the set: it becomes the youngest.
    this.entries?.delete(key);
    this.put(key, timeMs, seq);
  }

  /** Drops what is past either limit, as of an event's time. Map order is age order. */
  trim(nowMs: number): void {
    let left = REMOVED_MIN + Math.floor(this.size / REMOVED_SHARE);
    for (const [key, done] of this.entries ?? []) {
      const isOld = nowMs - done.timeMs > DONE_RETENTION_MS && this.size > DONE_COUNT_MIN;
      if (this.size <= DONE_COUNT_MAX && (!isOld || left-- <= 0)) return;
      this.entries = without(this.entries, key);
    }
  }

  /** For snapshots: `[key, time, seq]`, oldest first. */
  toArray(): Array<[string, number, number]> {
    return Array.from(this.entries ?? [], ([key, d]) => [key, d.timeMs, d.seq]);
  }

  static from(rows: ReadonlyArray<readonly [string, number, number]>): DoneSet {
    const set = new DoneSet();
    for (const [key, timeMs, seq] of rows) set.put(key, timeMs, seq);
    return set;
  }

  private put(key: string, timeMs: number, seq: number): void {
    this.hasDead ||= key.startsWith(DEAD_PREFIX);
    this.entries = withEntry(this.entries, key, { timeMs, seq });
  }
}
