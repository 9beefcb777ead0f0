/**
 * Makes text that every build of the library sends as UTF-8. The build for Node 24 writes a string
 * of characters up to U+00FF as one byte each; the build for Node 20 writes UTF-8; builds between
 * have not been checked. ASCII is the same in both and stays a string. All other text is encoded
 * here. Used by UwsSocket.ts and UwsExchange.ts.
 */
const NON_ASCII = /[^\0-\x7f]/;
/** The module version of Node 20. */
const WRITES_UTF8 = Number(process.versions.modules) <= 115;

/** Returns bytes, or a string that the library writes as UTF-8. */
export const asUtf8 = <Data extends string | Uint8Array>(data: Data): Data | Buffer =>
  WRITES_UTF8 || typeof data !== "string" || !NON_ASCII.test(data)
    ? data
    : Buffer.from(data, "utf8");
