/**
 * What may cross between agents as an argument or a result: JSON, as on the clients' wire. A `Date`
 * arrives as its ISO text (anything with `toJSON` as what that returns), `undefined` is left out of
 * objects and is null in arrays. What JSON would silently lose (a `Map`, a function, bytes) or
 * can't represent (a `bigint`, a cycle) is refused, with its place in the value, on the side whose
 * author sees the error.
 */
import { messageOf } from "../errors/thrown.ts";
import { LEVELS_MAX } from "../journal/jsonText.ts";

/**
 * Throws `TypeError` naming the place, like `argument 1 of add: .when is a Map`. `what` names the
 * value.
 */
export function assertWireValue(value: unknown, what: string): void {
  check(value, what, "", []);
}

function check(value: unknown, what: string, path: string, above: ReadonlyArray<object>): void {
  switch (typeof value) {
    case "bigint":
    case "function":
    case "symbol":
      throw refused(what, path, `a ${typeof value}`);
    case "object":
      break;
    default:
      return;
  }
  if (value === null) return;
  if (above.includes(value)) throw refused(what, path, "part of itself");
  if (above.length > LEVELS_MAX) throw refused(what, path, "nested too deeply");
  const lost = LOST.find((type) => value instanceof type);
  if (lost !== undefined || ArrayBuffer.isView(value))
    throw refused(what, path, `of type ${value.constructor.name}`);
  const within = [...above, value];
  const { toJSON } = value as { readonly toJSON?: unknown };
  if (typeof toJSON === "function")
    return check(asJson(value, toJSON, what, path), what, path, within);
  if (Array.isArray(value))
    value.forEach((item: unknown, i) => check(item, what, `${path}[${i}]`, within));
  else for (const [key, item] of Object.entries(value)) check(item, what, `${path}.${key}`, within);
}

function asJson(value: object, toJSON: object, what: string, path: string): unknown {
  try {
    return (toJSON as (key: string) => unknown).call(value, "");
  } catch (cause) {
    throw new TypeError(`${placed(what, path)}: ${messageOf(cause)}`, { cause });
  }
}

/** Types that `JSON.stringify` turns into `{}`. */
const LOST = [Map, Set, WeakMap, WeakSet, Promise, RegExp, Error, ArrayBuffer, Request, Response];

const refused = (what: string, path: string, is: string): TypeError =>
  new TypeError(`${placed(what, path)} is ${is}, which JSON can't represent`);

const placed = (what: string, path: string): string => (path === "" ? what : `${what}: ${path}`);
