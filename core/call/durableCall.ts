/**
 * Calls of durable methods (`@callable({ durable: true })`): the key by which a caller identifies
 * one, and what is refused. `CallLane` runs them; stubs and the frames of clients bring them.
 */
import * as Data from "effect/Data";

export interface DurableCall {
  /** From the caller. The same key again means the same call. */
  readonly key: string;
  readonly method: string;
  readonly args: ReadonlyArray<unknown>;
  /** As in `Turn`: of the turn that asks. Default 0. */
  readonly depth?: number;
}

/** The maximum of an idempotency key, which a step's key may be. */
const KEY_CHARS_MAX = 255;

/** Throws `TypeError`. */
export function checkCallKey(key: unknown): asserts key is string {
  // An unpaired surrogate has no encoding: two keys would be stored as one.
  const isText = typeof key === "string" && key.isWellFormed();
  if (isText && key !== "" && key.length <= KEY_CHARS_MAX) return;
  throw new TypeError(`the key of a call must be text of 1 to ${KEY_CHARS_MAX} characters`);
}

/** A call has the key of another one, of another method or with other arguments. It did not run. */
export class CallKeyTaken extends Data.TaggedError("CallKeyTaken")<{
  readonly key: string;
  readonly method: string;
}> {
  override get message(): string {
    return `${this.method}: the key "${this.key}" belongs to another call, with another method or other arguments: use a separate key for each call`;
  }
}

/** A call with a key of a method that is not durable: repeated, it would run again. */
export const notDurable = (method: string): Error =>
  new Error(
    `Method ${method} is not durable, so a call of it can't have a key: mark it @callable({ durable: true })`,
  );
