/**
 * What may cross between agents as an argument or a result: JSON, as on the clients' wire. A `Date`
 * arrives as its ISO text (anything with `toJSON` as what that returns), `undefined` is left out of
 * objects and is null in arrays. What JSON would silently lose (a `Map`, a function, bytes) or
 * can't represent (a `bigint`, a cycle) is refused, with its place in the value, on the side whose
 * author sees the error.
 */
import { walkJson } from "../journal/walkJson.ts";

/**
 * Throws `TypeError` naming the place, like `argument 1 of add: .when is a Map`, and `RangeError`
 * for one that is nested too deeply. `what` names the value.
 */
export function assertWireValue(value: unknown, what: string): void {
  walkJson(value, { what, isLost });
}

/** Types that `JSON.stringify` turns into `{}`. */
const LOST = [Map, Set, WeakMap, WeakSet, Promise, RegExp, Error, ArrayBuffer, Request, Response];

const isLost = (value: object): boolean =>
  ArrayBuffer.isView(value) || LOST.some((type) => value instanceof type);
