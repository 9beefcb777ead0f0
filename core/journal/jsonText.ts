/**
 * The JSON text of a value that is stored: a state, a payload, a chunk of a stream. It is parsed
 * and written again wherever it is read: in replays, by commands, on other hosts and releases of
 * Node. In older releases, `JSON.stringify` needs stack for each level: on Node 20 it fails at
 * 4,185 levels, on Node 26 past 4 million. Nesting is therefore bounded when the value is stored,
 * where the code that stores it receives the error. Pure.
 */

/** SQLite's JSON functions, which `agents query` reads states with, take 1,000. */
export const LEVELS_MAX = 500;

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const OPEN_LIST = 0x5b;
const CLOSE_LIST = 0x5d;
const OPEN_OBJECT = 0x7b;
const CLOSE_OBJECT = 0x7d;

/**
 * Undefined for what JSON leaves out: `undefined`, a function, a symbol. Throws `RangeError` for
 * more than `LEVELS_MAX` levels, and what `JSON.stringify` throws. `what` names the value.
 */
export function jsonText(value: unknown, what: string): string | undefined {
  const text = JSON.stringify(value) as string | undefined;
  if (text !== undefined && isTooDeep(text))
    throw new RangeError(
      `${what} is nested more than ${LEVELS_MAX} levels deep: use lists, or rows that refer to one another`,
    );
  return text;
}

/** Most texts are too short for it. */
function isTooDeep(text: string): boolean {
  if (text.length <= 2 * LEVELS_MAX) return false;
  let level = 0;
  for (let at = 0; at < text.length; at++) {
    const unit = text.charCodeAt(at);
    if (unit === QUOTE) at = endOfString(text, at);
    else if (unit === OPEN_LIST || unit === OPEN_OBJECT) {
      if (++level > LEVELS_MAX) return true;
    } else if (unit === CLOSE_LIST || unit === CLOSE_OBJECT) level--;
  }
  return false;
}

/** The index of the closing quote of the string that begins at `start`. */
function endOfString(text: string, start: number): number {
  let end = text.indexOf('"', start + 1);
  for (; ; end = text.indexOf('"', end + 1)) {
    let escapes = 0;
    while (text.charCodeAt(end - 1 - escapes) === BACKSLASH) escapes++;
    if (escapes % 2 === 0) return end;
  }
}
