/** Checksums are in every frame on disk: whoever computes them must get the same. */
import { expect, it } from "vitest";
import { crc32 } from "../../schemas/crc32.ts";

it("our CRC-32 has the standard check value, at the start of bytes and behind others", () => {
  expect(crc32(new TextEncoder().encode("123456789"))).toBe(0xcbf43926);
  expect(crc32(new TextEncoder().encode("head123456789"), 4)).toBe(0xcbf43926);
});
