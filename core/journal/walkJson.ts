/**
 * The walk through a value that JSON can't carry, to the place where it fails, so that the error
 * can name it: `setState: the state: .pr.id is a bigint`. `JSON.stringify` names none.
 *
 * Nesting is bounded: in older releases of Node, `JSON.stringify` needs stack for each level. Code
 * of the value (getters, `toJSON`, proxies) may throw at each read. Pure.
 */
import { isMostlyHoles } from "../../schemas/StructuredText.ts";
import { messageOf } from "../errors/thrown.ts";

/** SQLite's JSON functions, which `agents query` reads states with, take 1,000. */
export const LEVELS_MAX = 500;

interface WalkOptions {
  /** Names the value in errors. */
  readonly what: string;
  /** Objects that JSON would turn into `{}`: refused. Default: none, and neither is code. */
  readonly isLost?: (value: object) => boolean;
}

/** Throws `TypeError` for what JSON can't represent, `RangeError` past `LEVELS_MAX` levels. */
export function walkJson(value: unknown, options: WalkOptions): void {
  visit(value, options, "", []);
}

export const tooDeep = (what: string): RangeError =>
  new RangeError(
    `${what} is nested more than ${LEVELS_MAX} levels deep: use lists, or rows that refer to one another`,
  );

function visit(
  value: unknown,
  options: WalkOptions,
  path: string,
  above: ReadonlyArray<object>,
): void {
  const { what, isLost } = options;
  if (typeof value === "bigint" || (isLost !== undefined && isCode(value)))
    throw refused(what, path, `a ${typeof value}`);
  if (typeof value !== "object" || value === null) return;
  if (above.includes(value)) throw refused(what, path, "part of itself");
  if (above.length > LEVELS_MAX) throw tooDeep(what);
  const read = <A>(at: string, f: () => A): A => reading(what, at, f);
  if (read(path, () => isLost?.(value) === true))
    throw refused(what, path, `of type ${value.constructor.name}`);
  const within = [...above, value];
  const { toJSON } = read(path, () => ({ toJSON: (value as { toJSON?: unknown }).toJSON }));
  if (typeof toJSON === "function") {
    const replaced: unknown = read(path, () => Reflect.apply(toJSON, value, [""]) as unknown);
    return visit(replaced, options, path, within);
  }
  if (Array.isArray(value)) {
    if (isMostlyHoles(value)) throw refused(what, path, "an array that is mostly holes");
    value.forEach((item: unknown, i) => visit(item, options, `${path}[${i}]`, within));
    return;
  }
  for (const key of read(path, () => Object.keys(value))) {
    const at = `${path}.${key}`;
    const item = read(at, () => Reflect.get(value, key) as unknown);
    visit(item, options, at, within);
  }
}

/**
 * The error for the first `Map`, `Set` or `Promise` in a value that JSON has written, undefined
 * without one. Keeps no path while it searches: states are searched at each write.
 */
export function lostObject(value: unknown, what: string): TypeError | undefined {
  const path = pathOfLost(value);
  return path && refused(what, path.text, path.kind);
}

function pathOfLost(value: unknown): { text: string; kind: string } | undefined {
  if (typeof value !== "object" || value === null) return undefined;
  // JSON has what it returned.
  if (typeof (value as { toJSON?: unknown }).toJSON === "function") return undefined;
  if (value instanceof Map) return { text: "", kind: "a Map" };
  if (value instanceof Set) return { text: "", kind: "a Set" };
  if (value instanceof Promise) return { text: "", kind: "a Promise that is not awaited" };
  if (Array.isArray(value)) {
    for (let i = 0; i < value.length; i++) {
      const found = pathOfLost(value[i]);
      if (found !== undefined) return { ...found, text: `[${i}]${found.text}` };
    }
    return undefined;
  }
  for (const key of Object.keys(value)) {
    const found = pathOfLost(Reflect.get(value, key));
    if (found !== undefined) return { ...found, text: `.${key}${found.text}` };
  }
  return undefined;
}

const isCode = (value: unknown): boolean =>
  typeof value === "function" || typeof value === "symbol";

function reading<A>(what: string, path: string, read: () => A): A {
  try {
    return read();
  } catch (cause) {
    throw new TypeError(`${placed(what, path)}: ${messageOf(cause)}`, { cause });
  }
}

const refused = (what: string, path: string, is: string): TypeError =>
  new TypeError(`${placed(what, path)} is ${is}, which JSON can't represent`);

const placed = (what: string, path: string): string => (path === "" ? what : `${what}: ${path}`);
