/**
 * Counts the lists and objects that begin in the bytes of JSON from outside. `JSON.parse` takes its
 * time and memory by them: 16 MiB of nothing but brackets hold the thread for ten seconds and need
 * a gigabyte, those of one long text take some milliseconds. Who parses what a stranger sends
 * counts first.
 */

/** At most two seconds of a thread. A table of 25 MiB has fewer rows. */
const JSON_OPENINGS_MAX = 500_000;
/** Why a body is refused that has more. */
export const TOO_MANY_OPENINGS = `its body has more than ${JSON_OPENINGS_MAX} lists and objects`;

const OPEN_LIST = 0x5b;
const OPEN_OBJECT = 0x7b;

export const isOpening = (byte: number | undefined): boolean =>
  byte === OPEN_LIST || byte === OPEN_OBJECT;

/**
 * The number of `[` and `{` in the bytes. Those in texts count, too: telling them apart would need
 * to know where the bytes begin, and callers' limits leave room for them.
 */
export function openingsIn(bytes: Uint8Array): number {
  let openings = 0;
  // An index: a loop with `of` takes four times as long.
  for (let at = 0; at < bytes.length; at++) if (isOpening(bytes[at])) openings++;
  return openings;
}

/**
 * Whether the bytes are JSON with more than `JSON_OPENINGS_MAX` lists and objects. Such JSON begins
 * with a bracket, so other content may have as many as it likes.
 */
export function isCostlyJson(bytes: Uint8Array): boolean {
  let first = 0;
  while (isBlank(bytes[first])) first++;
  return isOpening(bytes[first]) && openingsIn(bytes) > JSON_OPENINGS_MAX;
}

/** White space of JSON, or a byte of the mark before it, which decoding drops. */
const isBlank = (byte: number | undefined): boolean =>
  byte === 0x20 || byte === 0x0a || byte === 0x0d || byte === 0x09 ||
  byte === 0xef || byte === 0xbb || byte === 0xbf; // prettier-ignore
