/**
 * The JSON text of a value that is stored: a state, a payload, a chunk of a stream. It is parsed
 * and written again wherever it is read: in replays, by commands, on other hosts and releases of
 * Node. In older releases, `JSON.stringify` needs stack for each level: on Node 20 it fails at
 * 4,185 levels, on Node 26 past 4 million. Nesting is therefore bounded when the value is stored,
 * where the code that stores it receives the error. Pure.
 */
import { LEVELS_MAX, lostObject, tooDeep, walkJson } from "./walkJson.ts";

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const OPEN_LIST = 0x5b;
const CLOSE_LIST = 0x5d;
const OPEN_OBJECT = 0x7b;
const CLOSE_OBJECT = 0x7d;

/**
 * Undefined for what JSON leaves out: `undefined`, a function, a symbol. Throws as `writtenJson`,
 * and `RangeError` for more than `LEVELS_MAX` levels. `what` names the value.
 */
export function jsonText(value: unknown, what: string): string | undefined {
  const text = writtenJson(value, what);
  if (text !== undefined && isDeeperThan(LEVELS_MAX, text)) throw tooDeep(what);
  return text;
}

/** Null for `undefined`. Throws as `jsonText`; `TypeError` for what else JSON leaves out. */
export function toJson(value: unknown, what: string): string | null {
  if (value === undefined) return null;
  const text = jsonText(value, what);
  if (text === undefined)
    throw new TypeError(`${what} must be JSON, not a ${typeof value}: pass its data`);
  return text;
}

/**
 * For a text that is sent and not stored. Throws `TypeError` that names the place of what JSON
 * can't represent, or writes as `{}` (a `Map`, a `Set`, a `Promise`), and `RangeError` for a text
 * that is longer than texts can be.
 */
export function writtenJson(value: unknown, what: string): string | undefined {
  let text: string | undefined;
  try {
    text = JSON.stringify(value) as string | undefined;
  } catch (cause) {
    walkJson(value, { what });
    throw new RangeError(`${what} is too large to be written as JSON`, { cause });
  }
  // Most texts have no `{}`, so most values are not walked.
  const lost = text?.includes("{}") === true ? lostObject(value, what) : undefined;
  if (lost !== undefined) throw lost;
  return text;
}

/** Whether a JSON text has more levels. Linear, and most texts are too short. It may be no JSON. */
export function isDeeperThan(levels: number, text: string): boolean {
  if (text.length <= 2 * levels) return false;
  let level = 0;
  for (let at = 0; at < text.length; at++) {
    const unit = text.charCodeAt(at);
    if (unit === QUOTE) at = endOfString(text, at);
    else if (unit === OPEN_LIST || unit === OPEN_OBJECT) {
      if (++level > levels) return true;
    } else if (unit === CLOSE_LIST || unit === CLOSE_OBJECT) level--;
  }
  return false;
}

/** Index of the quote that ends the string which begins at `start`, else of the text's end. */
function endOfString(text: string, start: number): number {
  let end = text.indexOf('"', start + 1);
  for (; ; end = text.indexOf('"', end + 1)) {
    if (end < 0) return text.length;
    let escapes = 0;
    while (text.charCodeAt(end - 1 - escapes) === BACKSLASH) escapes++;
    if (escapes % 2 === 0) return end;
  }
}
