/**
 * What a commit owes to the broker for its schedules and queue items: **timers and queue messages
 * first, then the event**. A trigger whose event never committed is harmless, since each is checked against
 * the agent before it runs; an event without its trigger would be a promise that nobody keeps.
 *
 * Also the triggers' deliveries: each is held until its job is settled and stored, then acked.
 */
import type { InputHandle } from "../input/Mailbox.ts";
import { SparseMap } from "../collections/sparse.ts";

/** One commit's share: what to store before its event, what to take back after it, and what to tell. */
export interface CommitTriggers {
  /** Stores the triggers. Rejects when that can't be known: the commit fails. */
  readonly before: () => Promise<void>;
  /** Takes back what is not needed any more; best effort. */
  readonly after: () => void;
  /** For the event: rows added and ids removed. */
  readonly schedules?: RowChanges;
  readonly queue?: RowChanges;
}

export interface RowChanges {
  readonly put?: ReadonlyArray<unknown>;
  readonly del?: ReadonlyArray<string>;
}

/** Undefined when nothing changed. */
export function rowChanges(
  put: ReadonlyArray<unknown>,
  del: ReadonlyArray<string>,
): RowChanges | undefined {
  if (put.length === 0 && del.length === 0) return undefined;
  return { ...(put.length > 0 ? { put } : {}), ...(del.length > 0 ? { del } : {}) };
}

/** Several shares as one; undefined when there is none. */
export function mergeTriggers(
  ...shares: ReadonlyArray<
    (Omit<CommitTriggers, "after"> & Partial<Pick<CommitTriggers, "after">>) | undefined
  >
): CommitTriggers | undefined {
  const owed = shares.filter((share) => share !== undefined);
  if (owed.length === 0) return undefined;
  const schedules = mergeRows(owed.map((share) => share.schedules));
  const queue = mergeRows(owed.map((share) => share.queue));
  return {
    before: async () => {
      await Promise.all(owed.map((share) => share.before()));
    },
    after: () => {
      for (const share of owed) share.after?.();
    },
    ...(schedules === undefined ? {} : { schedules }),
    ...(queue === undefined ? {} : { queue }),
  };
}

const mergeRows = (changes: ReadonlyArray<RowChanges | undefined>): RowChanges | undefined =>
  rowChanges(
    changes.flatMap((change) => change?.put ?? []),
    changes.flatMap((change) => change?.del ?? []),
  );

/** Deliveries of triggers, by the key of their job. */
export class HeldTriggers {
  private readonly handles = new SparseMap<string, InputHandle[]>();

  /** Of keys. */
  get size(): number {
    return this.handles.size;
  }

  has(key: string): boolean {
    return this.handles.has(key);
  }

  hold(key: string, handle: InputHandle): void {
    const held = this.handles.get(key);
    if (held === undefined) this.handles.set(key, [handle]);
    else held.push(handle);
  }

  /** Its job is settled and stored, or there is none. */
  release(key: string): void {
    for (const handle of this.handles.get(key) ?? []) handle.ack();
    this.handles.delete(key);
  }

  /** It can't be looked at now: they come again after `ms`. */
  putOff(key: string, ms: number): void {
    for (const handle of this.handles.get(key) ?? []) handle.nak(ms);
    this.handles.delete(key);
  }

  /** No job is left that they could be for. */
  releaseAll(): void {
    for (const key of this.handles.keys()) this.release(key);
  }
}
