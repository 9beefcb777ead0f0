/**
 * Bytes as base64 text and back, by what every JavaScript runtime has. For the files that carry stored frames
 * (`AgentFile`, `BackupFile`); nothing hot.
 */

/** Characters of one call: more arguments than this overflow the stack. */
const SLICE = 8_192;

export function toBase64(bytes: Uint8Array): string {
  let binary = "";
  for (let at = 0; at < bytes.length; at += SLICE)
    binary += String.fromCharCode(...bytes.subarray(at, at + SLICE));
  return btoa(binary);
}

/** Text that is not base64 gives no bytes: damage, which the frame's checksum finds. */
export function fromBase64(text: string): Uint8Array {
  try {
    return Uint8Array.from(atob(text), (char) => char.charCodeAt(0));
  } catch {
    return new Uint8Array(0);
  }
}
