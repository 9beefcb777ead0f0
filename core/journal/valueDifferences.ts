/**
 * Tells where one JSON value differs from another, by path, for people: `state.count: 3 -> 2`.
 * Pure.
 */

/** Characters of a value in a line. */
const VALUE_MAX = 240;

/** A line for each path whose values differ. */
export function* valueDifferences(was: unknown, is: unknown, path: string): Generator<string> {
  if (JSON.stringify(was) === JSON.stringify(is)) return;
  if (!isObject(was) || !isObject(is)) {
    yield `${path}: ${show(was)} -> ${show(is)}`;
    return;
  }
  const step = (key: string): string =>
    Array.isArray(is) ? `${path}[${key}]` : /^\w+$/.test(key) ? `${path}.${key}` : `${path}[${JSON.stringify(key)}]`; // prettier-ignore
  for (const key of new Set([...Object.keys(was), ...Object.keys(is)]))
    yield* valueDifferences(was[key], is[key], step(key));
}

const isObject = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === "object" && value !== null;
const show = (value: unknown): string =>
  value === undefined ? "unset" : cut(JSON.stringify(value));
export const cut = (text: string): string =>
  text.length <= VALUE_MAX ? text : `${text.slice(0, VALUE_MAX)}…`;
