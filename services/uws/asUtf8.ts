/**
 * Text as the library sends it right whatever its build: the one for Node 24 writes a string of
 * characters up to U+00FF one byte each, where that for Node 20 writes UTF-8; of those between nothing is known. ASCII is the
 * same in both and stays a string; all other text is encoded here. For UwsSocket.ts and UwsExchange.ts.
 */
const NON_ASCII = /[^\0-\x7f]/;
/** The module version of Node 20. */
const WRITES_UTF8 = Number(process.versions.modules) <= 115;

/** Bytes, or a string that the library writes as UTF-8. */
export const asUtf8 = <Data extends string | Uint8Array>(data: Data): Data | Buffer =>
  WRITES_UTF8 || typeof data !== "string" || !NON_ASCII.test(data)
    ? data
    : Buffer.from(data, "utf8");
