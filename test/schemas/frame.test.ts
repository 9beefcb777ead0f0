/** The frame that carries every stored message: what was written is read, and nothing else is. */
import fc from "../kit/property.ts";
import { describe, expect, it } from "vitest";
import {
  CorruptFrame,
  decodeFrame,
  encodeFrame,
  encodeFrameJson,
  UnknownVersion,
} from "../../schemas/Frame.ts";

/** Small, so that a failing case is small too. */
const head = fc.record({
  kind: fc.string({ unit: "grapheme" }),
  count: fc.integer(),
  more: fc.array(fc.oneof(fc.string(), fc.boolean(), fc.constant(null)), { maxLength: 4 }),
});
const body = fc.uint8Array({ maxLength: 300 });

describe("a frame", () => {
  it("reads as it was written, also after many others are written", () => {
    fc.assert(
      fc.property(fc.array(fc.tuple(head, body), { maxLength: 20 }), (all) => {
        const frames = all.map(([fields, bytes]) => encodeFrame(fields, bytes));
        frames.forEach((frame, i) => {
          const [fields, bytes] = all[i]!;
          const read = decodeFrame(frame);
          expect(read.head).toEqual(fields);
          expect(Buffer.from(read.body)).toEqual(Buffer.from(bytes));
        });
      }),
      // Enough for several slabs.
      { numRuns: 300 },
    );
  });

  it("has the same bytes however it is assembled: small, at a slab's end, larger than a slab", () => {
    for (const length of [1, 1000, 20_000, 30_000, 100_000])
      for (const letter of ["x", "ß", "語", "😀"]) {
        const text = letter.repeat(length);
        const frame = encodeFrame({ text }, Buffer.from("body"));
        const line = `{"v":1,"crc":"${Buffer.from(frame.subarray(14, 22)).toString()}","text":"${text}"}\n`;
        expect(Buffer.compare(frame, Buffer.from(`${line}body`))).toBe(0);
        expect(decodeFrame(frame).head).toEqual({ text });
      }
  });

  it("with any bit flipped or its tail cut is refused", () => {
    const frame = encodeFrame({ a: 1, b: "text" }, Buffer.from("body"));
    for (let bit = 0; bit < frame.length * 8; bit++) {
      const damaged = frame.slice();
      damaged[bit >> 3]! ^= 1 << (bit & 7);
      expect(() => decodeFrame(damaged), `bit ${bit}`).toThrow(/./);
    }
    for (let length = 0; length < frame.length; length++)
      expect(() => decodeFrame(frame.slice(0, length)), `${length} bytes`).toThrow(CorruptFrame);
  });

  it("of a later version is refused as such, not guessed at", () => {
    const frame = Buffer.from('{"v":2,"crc":"00000000","a":1}\n');
    expect(() => decodeFrame(frame)).toThrow(UnknownVersion);
  });

  it("has version and checksum at fixed offsets", () => {
    expect(Buffer.from(encodeFrameJson('{"a":1}')).toString()).toMatch(
      /^\{"v":1,"crc":"[0-9a-f]{8}","a":1\}\n$/,
    );
  });
});
