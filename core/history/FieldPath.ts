/**
 * Names a value of an agent for people: `state.pr.title`, `state.items[3]`, `events[42].title`.
 * `agents why` accepts what `agents diff`, `rerun` and the console print. Pure.
 *
 * A name of letters, digits, `_`, `$` and `-` stands plain; any other is a JSON string in brackets.
 * Brackets also hold the index of a list, or the key of a row: JSON values with commas between, or
 * a text as it is.
 */

/** One part of a path. `inBrackets`: what the brackets hold, as written. */
type PathPart = { readonly name: string } | { readonly inBrackets: string };

const PLAIN = /^[\p{L}\p{N}_$-]+$/u;

export const withName = (path: string, name: string): string =>
  PLAIN.test(name) ? (path === "" ? name : `${path}.${name}`) : `${path}[${JSON.stringify(name)}]`;

export const withIndex = (path: string, index: string): string => `${path}[${index}]`;

/** Undefined for an invalid path. */
export function readPath(text: string): ReadonlyArray<PathPart> | undefined {
  const parts: PathPart[] = [];
  const part = /\[((?:"(?:[^"\\]|\\.)*"|[^\]"])*)\]|(^|\.)([^.[\]"]+)/y;
  while (part.lastIndex < text.length) {
    const found = part.exec(text);
    if (found === null) return undefined;
    const [, inBrackets, , name] = found;
    if (name !== undefined) parts.push({ name });
    else if (inBrackets?.trim()) parts.push({ inBrackets: inBrackets.trim() });
    else return undefined;
  }
  return parts.length === 0 ? undefined : parts;
}

/** The name of a field or the index of a list. */
export function fieldName(part: PathPart): string {
  if ("name" in part) return part.name;
  const [value] = bracketValues(part.inBrackets);
  return String(value);
}

/** The key of a row: a value for each of its columns. */
export function bracketValues(inBrackets: string): ReadonlyArray<string | number | null> {
  try {
    const values = JSON.parse(`[${inBrackets}]`) as unknown[];
    if (values.every((value) => value === null || ["string", "number"].includes(typeof value)))
      return values as ReadonlyArray<string | number | null>;
  } catch {
    // It is a text without quotes.
  }
  return [inBrackets];
}

/** Undefined if the field does not exist. */
export function valueAt(value: unknown, names: ReadonlyArray<string>): unknown {
  let at = value;
  for (const name of names) {
    if (typeof at !== "object" || at === null || !Object.hasOwn(at, name)) return undefined;
    at = (at as Readonly<Record<string, unknown>>)[name];
  }
  return at;
}
