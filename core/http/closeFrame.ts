/**
 * What a WebSocket close frame may carry (RFC 6455, sections 5.5.1 and 7.4), and the codes that
 * this server closes with by itself. Adapters apply it to the codes and reasons that agents choose,
 * so that an invalid one becomes neither a broken frame nor an exception in a gateway.
 */

export const CLOSE_STOPPING = 1001;
export const CLOSE_NO_CODE = 1005;
export const CLOSE_VANISHED = 1006;
export const CLOSE_UNREADABLE = 1007;
export const CLOSE_TOO_BIG = 1009;
export const CLOSE_FAILED = 1011;
export const CLOSE_LAGGING = 1013;
/** The reason of `CLOSE_LAGGING` for a peer that does not read what it is sent. */
export const TOO_SLOW = "Too slow to receive";

// A control frame's payload is at most 125 bytes, two of which are the code.
const REASON_BYTES_MAX = 123;

const encoder = new TextEncoder();
const decoder = new TextDecoder("utf-8", { ignoreBOM: true });

/** Undefined for a code that may not be sent: the frame then has none, and the peer sees 1005. */
export const sendableCode = (code: number): number | undefined => {
  const standard = code >= 1000 && code <= 1014 && code !== 1004 && code !== 1005 && code !== 1006;
  const own = code >= 3000 && code <= 4999;
  return Number.isInteger(code) && (standard || own) ? code : undefined;
};

/** The reason cut to what a frame holds, never within a character. */
export const sendableReason = (reason: string): string => {
  // A UTF-16 unit becomes at most three bytes, so a short reason need not be encoded to be
  // measured.
  if (reason.length * 3 <= REASON_BYTES_MAX) return reason;
  const bytes = encoder.encode(reason);
  if (bytes.byteLength <= REASON_BYTES_MAX) return reason;
  let end = REASON_BYTES_MAX;
  while (((bytes[end] ?? 0) & 0xc0) === 0x80) end -= 1;
  return decoder.decode(bytes.subarray(0, end));
};
