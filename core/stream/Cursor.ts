/**
 * A place in a stream, as readers send it back: `<id of the stream>.<number of the last chunk>`.
 * The number alone means the stream that has the key now. Readers treat the text as opaque. Pure.
 */
export interface Cursor {
  /** Undefined: of whichever stream has the key. */
  readonly id: string | undefined;
  /** Number of the last chunk that the reader has; 0: none. */
  readonly sequence: number;
}

/** Before the first chunk. */
export const START: Cursor = { id: undefined, sequence: 0 };

export const cursorText = (id: string, sequence: number): string => `${id}.${sequence}`;

/** Undefined for an invalid text. */
export function parseCursor(text: string): Cursor | undefined {
  const match = /^(?:([A-Za-z0-9_-]{1,64})\.)?(\d{1,15})$/.exec(text);
  return match === null ? undefined : { id: match[1], sequence: Number(match[2]) };
}
