/**
 * Converts bytes to base64 text and back with `btoa` and `atob`, which every JavaScript runtime
 * has. For the files that contain stored frames (`AgentFile`, `BackupFile`), and for text in URLs.
 * Not for hot paths.
 */

/** Characters per call. More arguments could overflow the stack. */
const SLICE = 8_192;

export function toBase64(bytes: Uint8Array): string {
  let binary = "";
  for (let at = 0; at < bytes.length; at += SLICE)
    binary += String.fromCharCode(...bytes.subarray(at, at + SLICE));
  return btoa(binary);
}

/** Returns no bytes for text that is not base64; the frame's checksum then reports the damage. */
export function fromBase64(text: string): Uint8Array {
  try {
    const binary = atob(text);
    const bytes = new Uint8Array(binary.length);
    for (let at = 0; at < binary.length; at++) bytes[at] = binary.charCodeAt(at);
    return bytes;
  } catch {
    return new Uint8Array(0);
  }
}

/** For URLs (RFC 4648, section 5), without padding. */
export const toBase64Url = (bytes: Uint8Array): string =>
  toBase64(bytes).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");

/** As `fromBase64`. */
export const fromBase64Url = (text: string): Uint8Array =>
  fromBase64(text.replaceAll("-", "+").replaceAll("_", "/"));
