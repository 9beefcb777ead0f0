/**
 * Splits a JSON document into the elements of a list in it, byte for byte: numbers that JavaScript
 * can't represent, escapes and white space stay as they were signed. The caller has parsed the
 * document, so it is valid JSON, and this code only finds where values begin and end. Invalid JSON
 * ends the search; it never loops.
 */

const QUOTE = 0x22;
const COMMA = 0x2c;
const COLON = 0x3a;
const BACKSLASH = 0x5c;
const OPEN_LIST = 0x5b;
const CLOSE_LIST = 0x5d;
const OPEN_OBJECT = 0x7b;
const CLOSE_OBJECT = 0x7d;
const decoder = new TextDecoder();

/** A document, split at its list. */
interface Cut {
  readonly elements: ReadonlyArray<Uint8Array>;
  /** The document up to the list's first element, its `[` included. */
  readonly before: Uint8Array;
  /** The document from the list's `]` on. */
  readonly after: Uint8Array;
}

/** The elements of the list that the document, or this member of it, is. Undefined: no list. */
export function jsonElements(json: Uint8Array, member?: string): Cut | undefined {
  const from = member === undefined ? skipBlanks(json, 0) : memberAt(json, member);
  if (from === undefined || json[from] !== OPEN_LIST) return undefined;
  const elements: Uint8Array[] = [];
  let at = skipBlanks(json, from + 1);
  while (at < json.length && json[at] !== CLOSE_LIST) {
    const end = valueEnd(json, at);
    if (end === at) return undefined; // A value is missing: not JSON.
    elements.push(json.subarray(at, end));
    at = skipBlanks(json, end);
    if (json[at] === COMMA) at = skipBlanks(json, at + 1);
  }
  return { elements, before: json.subarray(0, from + 1), after: json.subarray(at) };
}

/** Offset of a member's value. Of two members with one name the last counts, as in `JSON.parse`. */
function memberAt(json: Uint8Array, name: string): number | undefined {
  let at = skipBlanks(json, 0);
  if (json[at] !== OPEN_OBJECT) return undefined;
  let found: number | undefined;
  at = skipBlanks(json, at + 1);
  while (at < json.length && json[at] !== CLOSE_OBJECT) {
    const keyEnd = valueEnd(json, at);
    if (keyEnd === at) return undefined; // Not JSON.
    const key: unknown = JSON.parse(decoder.decode(json.subarray(at, keyEnd)));
    at = skipBlanks(json, keyEnd);
    if (json[at] === COLON) at = skipBlanks(json, at + 1);
    if (key === name) found = at;
    at = skipBlanks(json, valueEnd(json, at));
    if (json[at] === COMMA) at = skipBlanks(json, at + 1);
  }
  return found;
}

/** Offset after the value that begins here. In valid JSON brackets nest: counting suffices. */
function valueEnd(json: Uint8Array, start: number): number {
  let depth = 0;
  for (let at = start; at < json.length; at++) {
    const byte = json[at]!;
    if (byte === QUOTE) {
      at = stringEnd(json, at) - 1;
      if (depth === 0) return at + 1;
    } else if (byte === OPEN_LIST || byte === OPEN_OBJECT) depth++;
    else if (byte === CLOSE_LIST || byte === CLOSE_OBJECT) {
      if (depth === 0) return at;
      if (--depth === 0) return at + 1;
    } else if (depth === 0 && (byte === COMMA || isBlank(byte))) return at;
  }
  return json.length;
}

function stringEnd(json: Uint8Array, start: number): number {
  for (let at = start + 1; at < json.length; at++) {
    if (json[at] === BACKSLASH) at++;
    else if (json[at] === QUOTE) return at + 1;
  }
  return json.length;
}

function skipBlanks(json: Uint8Array, from: number): number {
  let at = from;
  while (at < json.length && isBlank(json[at]!)) at++;
  return at;
}

/** JSON's white space, and the bytes of a byte order mark, which can only begin a document here. */
const isBlank = (byte: number): boolean =>
  byte === 0x20 ||
  (byte >= 0x09 && byte <= 0x0d) ||
  byte === 0xef ||
  byte === 0xbb ||
  byte === 0xbf;
