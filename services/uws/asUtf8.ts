/**
 * Text as the library sends it right whatever its build: the one for Node 24 writes a string of
 * characters up to U+00FF one byte each, where others write UTF-8. ASCII is the same in both and
 * stays a string; all other text is encoded here. For UwsSocket.ts and UwsExchange.ts.
 */
const NON_ASCII = /[^\0-\x7f]/;

/** Bytes, or a string of ASCII. */
export const asUtf8 = <Data extends string | Uint8Array>(data: Data): Data | Buffer =>
  typeof data === "string" && NON_ASCII.test(data) ? Buffer.from(data, "utf8") : data;
