/**
 * CRC-32 (IEEE 802.3, as in zlib and gzip), by Node. What is checksummed is read and written by
 * Node's processes alone.
 */

// Looked up, not imported, since schemas import nothing of Node.
const { crc32: ofNode } = globalThis.process.getBuiltinModule("node:zlib");

/** The checksum of `bytes` from `from` to the end, as an unsigned 32-bit number. */
export const crc32 = (bytes: Uint8Array, from = 0): number =>
  ofNode(from === 0 ? bytes : bytes.subarray(from));
