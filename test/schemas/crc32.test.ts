/** Checksums are in every frame on disk: whoever computes them must get the same. */
import { randomBytes } from "node:crypto";
import { crc32 as zlibCrc32 } from "node:zlib";
import { expect, it } from "vitest";
import { crc32 } from "../../schemas/crc32.ts";

it("our CRC-32 and the platform's agree, whatever the length, the offset and the seed", () => {
  const bytes = randomBytes(700);
  for (let length = 0; length <= bytes.length; length += length < 40 ? 1 : 37)
    for (const from of [0, 1, 8, length >> 1])
      for (const seed of [0, 1, 0xffffffff]) {
        const part = bytes.subarray(0, length);
        const wanted = zlibCrc32(part.subarray(from), seed);
        expect(crc32(part, from, seed), `${length} from ${from}`).toBe(wanted);
      }
});

it("our CRC-32 matches the standard check value", () => {
  expect(crc32(new TextEncoder().encode("123456789"))).toBe(0xcbf43926);
});
