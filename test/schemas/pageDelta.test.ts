/** Deltas of whole images, wherever the bytes of an image lie in memory. */
import { expect, test } from "vitest";
import { pageDeltaBetween } from "../../schemas/PageDelta.ts";

const PAGES = 2;
const PAGE_SIZE = 4_096;

function image(): Uint8Array {
  const bytes = new Uint8Array(PAGES * PAGE_SIZE);
  // SQLite's header has the page size, in two bytes.
  bytes[16] = PAGE_SIZE >> 8;
  bytes[5_000] = 7;
  return bytes;
}

test.each([0, 1, 2, 3])(
  "an image that a message of the broker contains, %i bytes past a word, has the same delta",
  (offset) => {
    const message = Buffer.alloc(PAGES * PAGE_SIZE + offset);
    const contained = message.subarray(offset);
    contained.set(image());
    const none = new Uint8Array(0);
    expect(pageDeltaBetween(none, contained)).toEqual(pageDeltaBetween(none, image()));
    expect(pageDeltaBetween(image(), contained)).toEqual(pageDeltaBetween(image(), image()));
  },
);
