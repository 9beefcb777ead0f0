/**
 * Bounds what one message of a client may cost the threads that read it: that of the gateway, which
 * all callers share, and that of the agent's host. The SDK's transports have the first of the two
 * bounds themselves, but not before a route has read the message.
 */
import { openingsIn } from "../../core/http/openingsIn.ts";

/** The default of the SDK's transports. */
export const MESSAGE_BYTES_MAX = 4 * 1024 * 1024;
/** Rows of a large table, and less than half a second of the thread. */
const OPENINGS_MAX = 250_000;

/** Why a message is not read; undefined if it may be parsed. */
export function messageRefusal(
  bytes: Uint8Array,
  bytesMax: number = Number.POSITIVE_INFINITY,
): Response | undefined {
  if (bytes.length > bytesMax) return tooLarge(`Request body must not exceed ${bytesMax} bytes`);
  if (openingsIn(bytes) > OPENINGS_MAX)
    return tooLarge(`Request body must not have more than ${OPENINGS_MAX} lists and objects`);
  return undefined;
}

/** The status, the code and the first words that the SDK's transports answer with. */
const tooLarge = (why: string): Response =>
  Response.json(
    { jsonrpc: "2.0", error: { code: -32000, message: `Payload Too Large: ${why}` }, id: null },
    { status: 413 },
  );

/** The bytes of a request's body, which can still be read afterwards; none of one that was read. */
export const bytesOf = async (request: Request): Promise<Uint8Array> =>
  request.bodyUsed ? NONE : new Uint8Array(await request.clone().arrayBuffer());

const NONE = new Uint8Array(0);

const decoder = new TextDecoder();

/** Undefined for what is no JSON. */
export function jsonOf(bytes: Uint8Array): unknown {
  try {
    return JSON.parse(decoder.decode(bytes)) as unknown;
  } catch {
    return undefined;
  }
}
