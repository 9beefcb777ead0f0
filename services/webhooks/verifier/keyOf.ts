/**
 * Reads keys from values of the environment: a shared secret's bytes, or a provider's public key in
 * the form that its dashboard shows. Private keys are read for `sign`, which acts as the provider.
 * Called by `Secrets` and `sign`. For a bad value the fault is returned, never the value itself.
 */
import {
  createPrivateKey,
  createPublicKey,
  createSecretKey,
  X509Certificate,
  type KeyObject,
} from "node:crypto";

/**
 * - `plain`: the key is the secret's UTF-8 bytes.
 * - `whsec`: the key is the base64 after an optional `whsec_`; or, after `whpk_`, an Ed25519 public
 *   key (Standard Webhooks).
 * - `ed25519-hex`: a raw Ed25519 public key in hex (Discord).
 * - `spki`: a public key as PEM, or as the base64 inside one (SendGrid).
 * - `certificate`: an X.509 certificate, or its public key, as PEM (PayPal).
 */
export type SecretFormat = "plain" | "whsec" | "ed25519-hex" | "spki" | "certificate";

/** Whether it is the provider's public key, which `agents dev` can't generate. */
export const isPublic = (format: SecretFormat): boolean => format !== "plain" && format !== "whsec";

const BASE64 = /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/;
const ED25519_KEY_BYTES = 32; // RFC 8032: seed and public key alike
/** The bytes of a PKCS #8 Ed25519 private key before its seed (RFC 8410). */
const ED25519_PKCS8_HEAD = Buffer.from("302e020100300506032b657004220420", "hex");

/** The key of a value; a string says what is wrong with the value. */
export function keyOf(value: unknown, format: SecretFormat): KeyObject | string {
  if (typeof value !== "string") return "is not a string";
  if (value.trim() === "") return "is empty";
  switch (format) {
    case "plain":
      return createSecretKey(Buffer.from(value));
    case "whsec": {
      if (!value.startsWith("whpk_")) return base64Secret(value);
      const raw = base64After("whpk_", value);
      return raw?.length === ED25519_KEY_BYTES
        ? ed25519Public(raw)
        : `is not 32 bytes in base64 after "whpk_"`;
    }
    case "ed25519-hex":
      return /^[0-9a-f]{64}$/i.test(value)
        ? ed25519Public(Buffer.from(value, "hex"))
        : "is not an Ed25519 public key: 64 hexadecimal digits";
    case "spki":
    case "certificate":
      return publicFromPem(value, format);
  }
}

/** The key that signs what `keyOf` of the format verifies; a string says what is wrong. */
export function signingKeyOf(value: string, format: SecretFormat): KeyObject | string {
  if (format === "plain" || (format === "whsec" && !value.startsWith("whsk_")))
    return keyOf(value, format);
  try {
    if (format === "spki" || format === "certificate") return createPrivateKey(value);
    const raw = format === "whsec" ? base64After("whsk_", value) : Buffer.from(value, "hex");
    // Some libraries append the public key to the seed: 64 bytes.
    const seed = raw?.subarray(0, ED25519_KEY_BYTES);
    if (seed?.length !== ED25519_KEY_BYTES) return "is not an Ed25519 private key of 32 bytes";
    const der = Buffer.concat([ED25519_PKCS8_HEAD, seed]);
    return createPrivateKey({ key: der, format: "der", type: "pkcs8" });
  } catch {
    // OpenSSL's message could contain parts of the value.
    return "is not a private key in PEM";
  }
}

function base64Secret(value: string): KeyObject | string {
  const raw = base64After("whsec_", value) ?? base64After("", value);
  return raw === undefined
    ? `is not base64, with or without "whsec_" before it`
    : createSecretKey(raw);
}

function base64After(prefix: string, value: string): Buffer | undefined {
  const text = value.startsWith(prefix) ? value.slice(prefix.length) : "";
  return text === "" || !BASE64.test(text) ? undefined : Buffer.from(text, "base64");
}

const ed25519Public = (raw: Uint8Array): KeyObject =>
  createPublicKey({
    key: { kty: "OKP", crv: "Ed25519", x: Buffer.from(raw).toString("base64url") },
    format: "jwk",
  });

function publicFromPem(value: string, format: "spki" | "certificate"): KeyObject | string {
  // Environment files often have a PEM on one line, with its line ends written as \n.
  const text = value.replaceAll("\\n", "\n").trim();
  try {
    if (text.startsWith("-----BEGIN CERTIFICATE-----")) return new X509Certificate(text).publicKey;
    if (text.startsWith("-----BEGIN PUBLIC KEY-----")) return createPublicKey(text);
    if (format === "spki" && BASE64.test(text))
      return createPublicKey({ key: Buffer.from(text, "base64"), format: "der", type: "spki" });
  } catch {
    // OpenSSL's message could contain parts of the value.
  }
  return format === "spki"
    ? "is not a public key: use PEM, or the base64 that the provider shows"
    : "is not a certificate in PEM";
}
