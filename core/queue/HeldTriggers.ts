/**
 * Holds an agent's deliveries of triggers. Each is acked once its job is settled and that is
 * stored; after a crash before that, the trigger is delivered again. Used by `QueueLane` and
 * `AlarmCover`.
 */
import { SparseMap } from "../collections/sparse.ts";
import type { InputHandle } from "../inbox/Inbox.ts";

/** Deliveries of triggers, by the key of their job. */
export class HeldTriggers {
  private readonly handles = new SparseMap<string, InputHandle[]>();

  /** Number of keys. */
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

  /** Its job is settled and stored, or does not exist. */
  release(key: string): void {
    for (const handle of this.handles.get(key) ?? []) handle.ack();
    this.handles.delete(key);
  }

  /** The job can't be checked now: its deliveries come again after `ms`. */
  putOff(key: string, ms: number): void {
    for (const handle of this.handles.get(key) ?? []) handle.nak(ms);
    this.handles.delete(key);
  }

  /** Acks all: no job is left. */
  releaseAll(): void {
    for (const key of this.handles.keys()) this.release(key);
  }
}
