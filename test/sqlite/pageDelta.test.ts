import fc from "../kit/property.ts";
import { describe, expect, it } from "vitest";
import { CorruptFrame, UnknownVersion, decodeFrame, encodeFrame } from "../../schemas/Frame.ts";
import { decodePageDelta, PageDeltaWriter, type PageView } from "../../schemas/PageDelta.ts";
import { applyPageDelta, changedPages } from "../kit/pages.ts";

const PAGE = 512;
const writer = new PageDeltaWriter(PAGE);
const ZEROS = new Uint8Array(PAGE);

const view = (bytes: Uint8Array): PageView => {
  const copy = Uint8Array.from(bytes);
  return { bytes: copy, words: new Int32Array(copy.buffer), at: 0 };
};
const pageOf = (image: Uint8Array, page: number): Uint8Array =>
  image.subarray((page - 1) * PAGE, page * PAGE);

/** The delta between two images, by comparing every page. */
function deltaOf(before: Uint8Array, after: Uint8Array, pagesKept?: number): Uint8Array {
  const counts = { pagesBefore: before.length / PAGE, pages: after.length / PAGE };
  const kept = pagesKept ?? Math.min(counts.pagesBefore, counts.pages);
  writer.begin();
  for (let page = 1; page <= counts.pages; page++)
    writer.add(page, view(page <= kept ? pageOf(before, page) : ZEROS), view(pageOf(after, page)));
  return writer.finish({ ...counts, pagesKept: kept });
}

const image = (pages: number): fc.Arbitrary<Uint8Array> =>
  fc.uint8Array({ minLength: pages * PAGE, maxLength: pages * PAGE });

/** An image and one that some edits made of it: sparse, like what a database writes. */
const change = fc
  .record({
    before: fc.integer({ min: 0, max: 6 }).chain(image),
    pages: fc.integer({ min: 0, max: 6 }),
    kept: fc.integer({ min: 0, max: 6 }),
    edits: fc.array(fc.tuple(fc.nat(6 * PAGE), fc.uint8Array({ minLength: 1, maxLength: 70 })), {
      maxLength: 12,
    }),
  })
  .map(({ before, pages, kept, edits }) => {
    const keptNow = Math.min(kept, pages, before.length / PAGE);
    const after = new Uint8Array(pages * PAGE);
    after.set(before.subarray(0, keptNow * PAGE));
    for (const [at, bytes] of edits) if (at + bytes.length <= after.length) after.set(bytes, at);
    return { before, after, kept: keptNow };
  });

describe("a page delta", () => {
  it("produces exactly the image that it was computed for", () => {
    fc.assert(
      fc.property(change, ({ before, after, kept }) => {
        const replayed = applyPageDelta(before, deltaOf(before, after, kept));
        expect(Buffer.compare(replayed, after)).toBe(0);
      }),
      { numRuns: 500 },
    );
  });

  it("contains only changed bytes, and lists the changed pages", () => {
    const before = new Uint8Array(4 * PAGE).fill(7);
    const after = Uint8Array.from(before);
    after[PAGE + 100] = 1;
    after[PAGE + 101] = 2;
    after[4 * PAGE - 1] = 3;
    const delta = deltaOf(before, after);
    expect(changedPages(delta)).toEqual([2, 4]);
    // Head 6, page 2: step, count, offset, length, 2 bytes; page 4: step, count, offset of two
    // bytes, length, 1 byte.
    expect([...delta]).toEqual([1, 9, 4, 4, 4, 2, 2, 1, 100, 1, 1, 2, 2, 1, 0xff, 3, 0, 3]);
  });

  it("treats dropped and returned pages as zeros", () => {
    const before = new Uint8Array(3 * PAGE).fill(9);
    const after = new Uint8Array(3 * PAGE);
    after.set(before.subarray(0, PAGE));
    const delta = deltaOf(before, after, 1);
    expect(decodePageDelta(delta)).toMatchObject({ pagesKept: 1, pages: 3, changed: 0 });
    expect(applyPageDelta(before, delta)).toEqual(after);
  });

  it("of a newer version is refused as such", () => {
    const delta = deltaOf(new Uint8Array(0), new Uint8Array(PAGE).fill(1));
    delta[0] = 2;
    expect(() => decodePageDelta(delta)).toThrow(UnknownVersion);
  });

  it("does not apply to an image of another size", () => {
    const delta = deltaOf(new Uint8Array(PAGE), new Uint8Array(PAGE).fill(1));
    expect(() => applyPageDelta(new Uint8Array(2 * PAGE), delta)).toThrow(CorruptFrame);
  });

  it("that is truncated anywhere is refused", () => {
    const delta = deltaOf(new Uint8Array(2 * PAGE), new Uint8Array(2 * PAGE).fill(5));
    for (let length = 0; length < delta.length; length++)
      expect(() => decodePageDelta(delta.subarray(0, length))).toThrow(CorruptFrame);
  });

  it("with any flipped bit is detected by the frame that carries it", () => {
    const delta = deltaOf(new Uint8Array(PAGE), new Uint8Array(PAGE).fill(5, 10, 30));
    const frame = encodeFrame({ kind: "test" }, delta);
    for (let bit = 0; bit < frame.length * 8; bit++) {
      const bad = Uint8Array.from(frame);
      bad[bit >> 3]! ^= 1 << (bit & 7);
      expect(() => decodeFrame(bad)).toThrow();
    }
  });

  it("of arbitrary bytes is refused or stays within its pages", () => {
    const check = (bytes: Uint8Array): void => {
      let delta;
      try {
        delta = decodePageDelta(bytes);
      } catch (error) {
        expect(error instanceof CorruptFrame || error instanceof UnknownVersion).toBe(true);
        return;
      }
      delta.forEach((page, offset, from, length) => {
        expect(page >= 1 && page <= delta.pages && length >= 1).toBe(true);
        expect(offset >= 0 && offset + length <= delta.pageSize).toBe(true);
        expect(from + length <= bytes.length).toBe(true);
      });
    };
    const head = fc.constantFrom([1, 9], [1, 12], [1, 16], [1, 9, 2, 2, 2, 2], [1, 12, 0, 0, 4, 1]);
    fc.assert(
      fc.property(head, fc.uint8Array({ maxLength: 60 }), (start, rest) =>
        check(Uint8Array.from([...start, ...rest])),
      ),
      { numRuns: 20_000 },
    );
    // Real deltas with a few bytes changed come past more checks than random ones.
    fc.assert(
      fc.property(
        change,
        fc.array(fc.tuple(fc.nat(), fc.nat(255)), { minLength: 1, maxLength: 4 }),
        ({ before, after, kept }, edits) => {
          const delta = deltaOf(before, after, kept);
          for (const [at, byte] of edits) delta[at % delta.length] = byte;
          check(delta);
        },
      ),
      { numRuns: 3_000 },
    );
  });
});
