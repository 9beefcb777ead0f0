/** Base64 is in backups and archives: whoever writes it must write the same. */
import { randomBytes } from "node:crypto";
import { expect, it } from "vitest";
import { fromBase64, portableFromBase64, toBase64 } from "../../schemas/base64.ts";

it("our base64 and the platform's agree, whatever the length and the offset in a larger buffer", () => {
  const bytes = new Uint8Array(randomBytes(20_000));
  for (const [from, to] of [
    [0, 0],
    [0, 1],
    [1, 3],
    [5, 8],
    [7, 20_000],
  ] as const) {
    const part = bytes.subarray(from, to);
    const text = toBase64(part);
    expect(btoa(String.fromCharCode(...part))).toBe(text);
    expect(fromBase64(text)).toEqual(part);
    expect(portableFromBase64(text)).toEqual(part);
    // Nobody else's bytes are in its buffer.
    expect(fromBase64(text).buffer.byteLength).toBe(part.length);
  }
});

it("text that is not base64 decodes to no bytes", () => {
  for (const text of ["a", "ab*d", "ab=d"]) {
    expect(fromBase64(text), text).toHaveLength(0);
    expect(portableFromBase64(text), text).toHaveLength(0);
  }
});
