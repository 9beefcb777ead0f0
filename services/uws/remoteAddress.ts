/**
 * Converts the binary addresses of uWebSockets.js to the text that node:net uses: IPv6 in its
 * canonical short form (RFC 5952), and IPv4 on a dual-stack socket as plain IPv4. Rate limits
 * compare addresses, so both adapters must spell an address in the same way.
 */

/** Returns "" for an address of unknown length. */
export const remoteAddress = (binary: ArrayBuffer): string => {
  const bytes = new Uint8Array(binary);
  if (bytes.length === 4) return bytes.join(".");
  if (bytes.length !== 16) return "";
  const mapped = bytes[10] === 0xff && bytes[11] === 0xff && bytes.subarray(0, 10).every(isZero);
  return mapped ? bytes.subarray(12).join(".") : ipv6(bytes);
};

const isZero = (byte: number): boolean => byte === 0;

const ipv6 = (bytes: Uint8Array): string => {
  const view = new DataView(bytes.buffer, bytes.byteOffset, 16);
  const groups = Array.from({ length: 8 }, (_, index) => view.getUint16(index * 2).toString(16));
  const run = longestZeroRun(groups);
  if (run.length < 2) return groups.join(":");
  const head = groups.slice(0, run.start).join(":");
  const tail = groups.slice(run.start + run.length).join(":");
  return `${head}::${tail}`;
};

const longestZeroRun = (groups: ReadonlyArray<string>) => {
  let best = { start: 0, length: 0 };
  let start = 0;
  for (let index = 0; index <= groups.length; index += 1) {
    if (groups[index] === "0") continue;
    if (index - start > best.length) best = { start, length: index - start };
    start = index + 1;
  }
  return best;
};
