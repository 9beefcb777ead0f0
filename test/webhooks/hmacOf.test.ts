/** `hmacOf` is `createHmac`, for every hash, encoding, and length of key and message. */
import { createHmac, createSecretKey, randomBytes } from "node:crypto";
import { expect, test } from "vitest";
import { hmacOf, type HmacHash } from "../../services/webhooks/verifier/hmacOf.ts";

const HASHES = ["sha1", "sha256", "sha512"] as const;
/** About a block of either kind, and past it: a key that is hashed first. */
const KEY_LENGTHS = [1, 9, 63, 64, 65, 127, 128, 129, 500];
/** None, about a block, about the scratch memory with either kind of block, and past it. */
const LENGTHS = [0, 1, 63, 64, 300, 32_639, 32_640, 32_641, 32_703, 32_704, 32_705, 100_000];

const expected = (name: HmacHash, key: Buffer, message: Buffer, encoding: "hex" | "base64") =>
  createHmac(name, key).update(message).digest(encoding);

test.each(HASHES)("%s is right for every length of key and message", (name) => {
  for (const keyLength of KEY_LENGTHS)
    for (const length of LENGTHS)
      for (const encoding of ["hex", "base64"] as const) {
        const secret = randomBytes(keyLength);
        const message = randomBytes(length);
        const key = createSecretKey(secret);
        expect(hmacOf(name, key, [message], encoding), `${keyLength}, ${length}`).toBe(
          expected(name, secret, message, encoding),
        );
      }
});

test("a message in pieces equals the whole message, and one key serves several hashes", () => {
  const secret = randomBytes(32);
  const key = createSecretKey(secret);
  for (let n = 0; n < 300; n++) {
    const pieces = Array.from({ length: n % 5 }, () =>
      randomBytes(Math.floor(Math.random() * 900)),
    );
    const name = HASHES[n % HASHES.length]!;
    const whole = Buffer.concat(pieces);
    expect(hmacOf(name, key, pieces, "hex")).toBe(expected(name, secret, whole, "hex"));
  }
});
