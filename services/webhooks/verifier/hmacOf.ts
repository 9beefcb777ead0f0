/**
 * HMAC (RFC 2104) by two one-shot hashes. Equals `createHmac`, by test; messages that exceed the
 * scratch memory go to `createHmac`.
 *
 * A hot path. `createHmac` allocates a native object per message, and OpenSSL sets the key up each
 * time. Measured on Node 24: 2 to 3 µs alone, and 10 µs of a webhook's 137 under load; this
 * function takes 0.8 and 3.
 */
import { createHmac, hash, type KeyObject } from "node:crypto";

export type HmacHash = "sha1" | "sha256" | "sha512";

/** Block size in bytes, to which a key is padded (FIPS 180-4). */
const BLOCK_BYTES: Readonly<Record<HmacHash, number>> = { sha1: 64, sha256: 64, sha512: 128 };
/** RFC 2104's `ipad` and `opad`. */
const INNER = 0x36;
const OUTER = 0x5c;
/** Holds most webhooks and a block. For more, hashing costs far more than the native object. */
const SCRATCH_BYTES = 32 * 1024;

interface PaddedKey {
  readonly inner: Uint8Array;
  readonly outer: Uint8Array;
}

const padded: Readonly<Record<HmacHash, WeakMap<KeyObject, PaddedKey>>> = {
  sha1: new WeakMap(),
  sha256: new WeakMap(),
  sha512: new WeakMap(),
};
/** Holds a block and a message, then a block and a digest. Holds nothing between two calls. */
const scratch = Buffer.allocUnsafeSlow(SCRATCH_BYTES);

/** The HMAC of a message given in pieces, as text. */
export function hmacOf(
  name: HmacHash,
  key: KeyObject,
  message: ReadonlyArray<Uint8Array>,
  encoding: "hex" | "base64",
): string {
  const block = BLOCK_BYTES[name];
  let end = block;
  for (const part of message) end += part.length;
  if (end > SCRATCH_BYTES) {
    const whole = createHmac(name, key);
    for (const part of message) whole.update(part);
    return whole.digest(encoding);
  }
  const { inner, outer } = paddedKey(name, key);
  scratch.set(inner);
  let at = block;
  for (const part of message) {
    scratch.set(part, at);
    at += part.length;
  }
  const digest = hash(name, scratch.subarray(0, end), "binary");
  scratch.set(outer);
  return hash(name, scratch.subarray(0, block + scratch.write(digest, block, "latin1")), encoding);
}

function paddedKey(name: HmacHash, key: KeyObject): PaddedKey {
  const known = padded[name].get(key);
  if (known !== undefined) return known;
  const block = BLOCK_BYTES[name];
  const secret = key.export();
  const bytes = secret.length > block ? hash(name, secret, "buffer") : secret;
  const pad = (value: number): Uint8Array =>
    Uint8Array.from({ length: block }, (_, i) => (bytes[i] ?? 0) ^ value);
  const made = { inner: pad(INNER), outer: pad(OUTER) };
  padded[name].set(key, made);
  return made;
}
