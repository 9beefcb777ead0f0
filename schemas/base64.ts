/**
 * Converts bytes to base64 text with Node's `Buffer`, and back without it too, for clients in
 * browsers. For the archive and the files that contain stored frames (`AgentFile`, `BackupFile`),
 * and for text in URLs.
 */

// Looked up, not imported, since schemas load in browsers too.
const platform = globalThis.process?.getBuiltinModule?.("node:buffer")?.Buffer;

/** In Node alone. */
export const toBase64 = (bytes: Uint8Array): string =>
  platform!.from(bytes.buffer, bytes.byteOffset, bytes.length).toString("base64");

/** Returns no bytes for text that is not base64; the frame's checksum then reports the damage. */
export const fromBase64 = (text: string): Uint8Array =>
  decoded(text, (bytes, binary) => {
    if (platform === undefined) copy(bytes, binary);
    else platform.from(bytes.buffer).write(binary, "latin1");
  });

/** As `fromBase64`, without the platform's. */
export const portableFromBase64 = (text: string): Uint8Array => decoded(text, copy);

/** By `atob`, which refuses what is not base64; `Buffer` would skip it. */
function decoded(
  text: string,
  fill: (bytes: Uint8Array<ArrayBuffer>, binary: string) => void,
): Uint8Array {
  try {
    const binary = atob(text);
    const bytes = new Uint8Array(binary.length);
    fill(bytes, binary);
    return bytes;
  } catch {
    return new Uint8Array(0);
  }
}

function copy(bytes: Uint8Array, binary: string): void {
  for (let at = 0; at < binary.length; at++) bytes[at] = binary.charCodeAt(at);
}

/** For URLs (RFC 4648, section 5), without padding. */
export const toBase64Url = (bytes: Uint8Array): string =>
  toBase64(bytes).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");

/** As `fromBase64`. */
export const fromBase64Url = (text: string): Uint8Array =>
  fromBase64(text.replaceAll("-", "+").replaceAll("_", "/"));
