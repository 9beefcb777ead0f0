/**
 * The signature algorithms: makes the signature of a message, and verifies one that was sent.
 * Called by `verifierOf` and `sign` with the bytes of `signedBytes`.
 *
 * 1. A signature by a shared secret is computed again and compared as text, in constant time.
 * 2. A signature by a private key is decoded from one spelling only. One that OpenSSL can't read is
 *    wrong.
 */
import {
  createHash,
  sign as signBytes,
  timingSafeEqual,
  verify as verifyBytes,
  type KeyObject,
} from "node:crypto";
import { hmacOf } from "./hmacOf.ts";

export type PublicKeyAlgorithm = "ed25519" | "ecdsa-sha256" | "rsa-sha256";

/**
 * `secret-sha256`: the plain SHA-256 of the secret followed by the message, as in HubSpot's older
 * versions. `token`: the secret itself instead of a signature.
 */
export type Algorithm =
  "hmac-sha256" | "hmac-sha1" | "hmac-sha512" | "secret-sha256" | "token" | PublicKeyAlgorithm;

/** Lower-case hex, or padded base64. Digests are compared as text: each has one spelling. */
export type SignatureEncoding = "hex" | "base64";

interface Signing {
  readonly algorithm: Algorithm;
  readonly encoding: SignatureEncoding;
}

/** A message in pieces, so that a large body is not copied. */
export type Message = ReadonlyArray<Uint8Array>;

const HMAC = { "hmac-sha256": "sha256", "hmac-sha1": "sha1", "hmac-sha512": "sha512" } as const;
/** Digest names for `node:crypto`; Ed25519 has a built-in one. */
const DIGEST = { ed25519: null, "ecdsa-sha256": "sha256", "rsa-sha256": "sha256" } as const;

const isPublicKeyAlgorithm = (algorithm: Algorithm): algorithm is PublicKeyAlgorithm =>
  Object.hasOwn(DIGEST, algorithm);

/** The signature of a message as text, without its prefix. `key`: a secret, or a private key. */
export function signatureOf(signing: Signing, message: Message, key: KeyObject): string {
  const { algorithm, encoding } = signing;
  if (isPublicKeyAlgorithm(algorithm))
    return signBytes(DIGEST[algorithm], Buffer.concat(message), key).toString(encoding);
  if (algorithm === "token") return key.export().toString();
  if (algorithm !== "secret-sha256") return hmacOf(HMAC[algorithm], key, message, encoding);
  const digest = createHash("sha256").update(key.export());
  for (const part of message) digest.update(part);
  return digest.digest(encoding);
}

/** Whether one of the signatures sent is this key's for this message. */
export function isSignedBy(
  key: KeyObject,
  signing: Signing,
  message: Message,
  sent: ReadonlyArray<string>,
): boolean {
  let matches = false;
  const { algorithm, encoding } = signing;
  if (!isPublicKeyAlgorithm(algorithm)) {
    const expected = signatureOf(signing, message, key);
    for (const given of sent) if (sameText(expected, given)) matches = true; // rule 1
    return matches;
  }
  const bytes = message.length === 1 ? message[0]! : Buffer.concat(message);
  for (const given of sent) {
    const signature = Buffer.from(given, encoding);
    if (signature.toString(encoding) === given)
      // Rule 2.
      matches ||= verifies(algorithm, bytes, key, signature);
  }
  return matches;
}

function verifies(
  algorithm: PublicKeyAlgorithm,
  bytes: Uint8Array,
  key: KeyObject,
  signature: Uint8Array,
): boolean {
  try {
    return verifyBytes(DIGEST[algorithm], bytes, key, signature);
  } catch {
    // Rule 2: the key is not of the algorithm's kind, or the bytes are not a signature.
    return false;
  }
}

/** Whether two texts are equal, in a time that depends on their lengths only. */
export function sameText(expected: string, given: string): boolean {
  if (expected.length !== given.length) return false;
  const a = Buffer.from(expected);
  const b = Buffer.from(given);
  return a.length === b.length && timingSafeEqual(a, b);
}
