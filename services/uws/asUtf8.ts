/**
 * Makes text that every build of the library sends as valid UTF-8. The build for Node 24 writes a
 * string of characters up to U+00FF as one byte each; the build for Node 20 writes UTF-8; builds
 * between have not been checked. None replaces an unpaired surrogate, at whose bytes a WebSocket
 * client fails the connection. ASCII is the same in all and stays a string. Used by UwsSocket.ts
 * and UwsExchange.ts.
 */
const NON_ASCII = /[^\0-\x7f]/;
/** The module version of Node 20. */
const WRITES_UTF8 = Number(process.versions.modules) <= 115;

/** Returns bytes, or a string that the library writes as UTF-8. */
export function asUtf8(data: string | Uint8Array): string | Uint8Array {
  if (typeof data !== "string") return data;
  if (WRITES_UTF8) return data.toWellFormed();
  return NON_ASCII.test(data) ? Buffer.from(data, "utf8") : data;
}
