/**
 * A change of `state` as the journal writes it: whole when small, else a splice of the JSON text
 * before (common prefix and suffix), so that a large state changed often stays cheap.
 * Pure; the committer writes with `diffState`, `applyEvent` reads with `applyState`.
 */
import type { StateChange } from "../../schemas/JournalEvent.ts";
import { CorruptFrame } from "../../schemas/Frame.ts";

/** UTF-16 units below which the whole state is written: readable, and hardly larger. */
const WHOLE_STATE_MAX = 1024;

/** JSON text of a state, and whether replay finds it character by character. */
export interface StateText {
  readonly text: string | undefined;
  readonly isExact: boolean;
}

/**
 * The JSON text of a `StateChange` from one state text to the next; `undefined` is "unset".
 *
 * A splice requires that replay finds `before` exactly. Where that is not known, it is looked at:
 * `JSON.rawJSON`, and proxies that list their keys in an order of their own, lead to texts that a
 * replay of `set` writes differently.
 */
export function diffState(
  before: string | undefined,
  after: string | undefined,
  isExact: boolean,
): string {
  if (after === undefined) return '{"clear":true}';
  if (before === undefined || after.length <= WHOLE_STATE_MAX) return `{"set":${after}}`;
  const shorter = Math.min(before.length, after.length);
  let start = 0;
  while (start < shorter && before.charCodeAt(start) === after.charCodeAt(start)) start++;
  let end = 0;
  const endMax = shorter - start;
  while (
    end < endMax &&
    before.charCodeAt(before.length - 1 - end) === after.charCodeAt(after.length - 1 - end)
  )
    end++;
  const middle = after.slice(start, after.length - end);
  // From half of the text on: the whole is hardly larger, and can be read by itself.
  if (middle.length * 2 > after.length) return `{"set":${after}}`;
  if (!isExact && !isCanonical(before)) return `{"set":${after}}`;
  return JSON.stringify({ splice: [start, end, middle] });
}

const isCanonical = (text: string): boolean => JSON.stringify(JSON.parse(text)) === text;

/** Whether a state that was read from JSON would have another text; only splices lead to one. */
export const needsText = (state: string | undefined): state is string =>
  state !== undefined && state.length > WHOLE_STATE_MAX && !isCanonical(state);

/** Whether a text of `diffState` is a splice, after which replay finds the next text exactly. */
export const isSplice = (change: string): boolean => change.startsWith('{"splice"');

/** The state text after a change. Throws `CorruptFrame` for a splice that does not fit `before`. */
export function applyState(before: string | undefined, change: StateChange): string | undefined {
  if ("set" in change) return JSON.stringify(change.set);
  if ("clear" in change) return undefined;
  const [start, end, middle] = change.splice;
  if (before === undefined || start + end > before.length || start < 0 || end < 0)
    throw new CorruptFrame({ message: "a state splice does not fit the state before it" });
  return before.slice(0, start) + middle + before.slice(before.length - end);
}
