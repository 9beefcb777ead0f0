/**
 * The frame that carries every stored message (event, envelope, snapshot):
 *
 *     {"v":1,"crc":"xxxxxxxx",…rest of one JSON object…}\n…bytes…
 *
 * The frame is one line of JSON that any tool can read, followed by raw bytes (page deltas, a
 * request body). `v` and `crc` have fixed places. `crc` is the CRC-32 (IEEE, 8 lower-case hex
 * digits) of all that follows its closing quote, so a flipped bit or a missing tail is always found
 * (invariant I12). A reader refuses an unknown `v` (`UnknownVersion`).
 */
import * as Data from "effect/Data";
import type { Result } from "effect/Result";
import { crc32 } from "./crc32.ts";

export const FRAME_VERSION = 1;

/** The bytes are not a frame, or differ from the frame that was written. */
export class CorruptFrame extends Data.TaggedError("CorruptFrame")<{ readonly message: string }> {}
/** Written by a newer release: upgrade this process to read it. */
export class UnknownVersion extends Data.TaggedError("UnknownVersion")<{
  readonly version: number;
  readonly message: string;
}> {}

export interface Frame {
  /** The JSON object, without `v` and `crc`. The caller checks its shape with a schema. */
  readonly head: Readonly<Record<string, unknown>>;
  /** The bytes after the JSON line; can be empty. A view, not a copy. */
  readonly body: Uint8Array;
}

const encoder = new TextEncoder();
const decoder = new TextDecoder("utf-8", { fatal: true });
const EMPTY = new Uint8Array(0);
const NEWLINE = 0x0a;
const PREFIX = `{"v":${FRAME_VERSION},"crc":"`;
const CRC_AT = PREFIX.length;
const REST_AT = CRC_AT + 8;
/** The text before the head's first key, with a placeholder for the checksum. */
const START = encoder.encode(`${PREFIX}00000000",`);

/** Encodes a frame. `head` is plain JSON with at least one key, none of them `v` or `crc`. */
export function encodeFrame(head: object, body: Uint8Array = EMPTY): Uint8Array {
  return encodeFrameJson(JSON.stringify(head), body);
}

/** As `encodeFrame`, for a head that is already JSON text (`{…}`, at least one key). */
export function encodeFrameJson(json: string, body: Uint8Array = EMPTY): Uint8Array {
  const out = slabs.write(json, body);
  const hex = crc32(out, REST_AT).toString(16).padStart(8, "0");
  for (let i = 0; i < 8; i++) out[CRC_AT + i] = hex.charCodeAt(i);
  return out;
}

/** Holds some fifty usual frames. Not larger, since a retained frame retains its whole slab. */
const SLAB_BYTES = 64 * 1024;
/** The most UTF-8 bytes of one UTF-16 unit. */
const UTF8_BYTES_MAX = 3;

/**
 * Memory for frames, allocated from slabs. A hot path: a webhook writes four frames, and a separate
 * array buffer for each costs more than writing it (measured: 4.6 µs a frame, 2.2 from a slab). No
 * byte is allocated twice, so callers share no state.
 */
class Slabs {
  private slab = EMPTY;
  private used = 0;

  /** A frame without its checksum, as one new array. */
  write(json: string, body: Uint8Array): Uint8Array {
    const bytesMax = START.length + json.length * UTF8_BYTES_MAX + 1 + body.length;
    if (bytesMax > SLAB_BYTES) return write(json, body);
    if (this.slab.length - this.used < bytesMax) {
      this.slab = new Uint8Array(SLAB_BYTES);
      this.used = 0;
    }
    const start = this.used;
    // The JSON's brace takes the place of the start's comma, which avoids a second concatenation of
    // the text.
    const at = start + START.length - 1;
    const { written } = encoder.encodeInto(json, this.slab.subarray(at));
    this.slab.set(START, start);
    const end = at + written;
    this.slab[end] = NEWLINE;
    const out = this.slab.subarray(start, end + 1 + body.length);
    if (body.length > 0) this.slab.set(body, end + 1);
    this.used = start + out.length;
    return out;
  }
}

const slabs = new Slabs();

/**
 * As `Slabs.write`, for a large frame. Encodes the text as it is: encoding a concatenation of
 * 200 KB takes thirty times as long.
 */
function write(json: string, body: Uint8Array): Uint8Array {
  const text = encoder.encode(json);
  const end = START.length - 1 + text.length;
  const out = new Uint8Array(end + 1 + body.length);
  out.set(text, START.length - 1);
  out.set(START);
  out[end] = NEWLINE;
  out.set(body, end + 1);
  return out;
}

/** Throws `CorruptFrame` or `UnknownVersion`. */
export function decodeFrame(bytes: Uint8Array): Frame {
  const end = bytes.indexOf(NEWLINE);
  if (end < REST_AT + 2) throw new CorruptFrame({ message: "no JSON line where a frame starts" });
  let line: string;
  try {
    line = decoder.decode(bytes.subarray(0, end));
  } catch {
    throw new CorruptFrame({ message: "the frame's first line is not UTF-8" });
  }
  if (!line.startsWith(PREFIX)) throw refuse(line);
  const found = crc32(bytes, REST_AT).toString(16).padStart(8, "0");
  const written = line.slice(CRC_AT, REST_AT);
  if (found !== written)
    throw new CorruptFrame({
      message: `checksum ${found} of ${bytes.length} bytes, written ${written}`,
    });
  // Parses what follows `crc` and its comma: cheaper than parsing `v` and `crc` and deleting them.
  let head: Record<string, unknown>;
  try {
    head = JSON.parse(`{${line.slice(REST_AT + 2)}`) as Record<string, unknown>;
  } catch {
    // The checksum is correct, so the writer did not write a frame.
    throw new CorruptFrame({ message: "the frame's first line is not JSON" });
  }
  return { head, body: bytes.subarray(end + 1) };
}

/** What a schema has decoded. Throws `CorruptFrame`, which says what the value is not. */
export function decoded<A>(result: Result<A, unknown>, what: string): A {
  if (result._tag === "Success") return result.success;
  throw new CorruptFrame({ message: `not ${what}: ${String(result.failure)}` });
}

/** A frame that can't be read. A flipped bit can look like the version of a later release. */
export const isUnreadable = (error: unknown): error is CorruptFrame | UnknownVersion =>
  error instanceof CorruptFrame || error instanceof UnknownVersion;

/** Returns undefined for bytes that `read` can't read. Throws its other errors. */
export function ifReadable<A>(read: () => A): A | undefined {
  try {
    return read();
  } catch (error) {
    if (isUnreadable(error)) return undefined;
    throw error;
  }
}

function refuse(line: string): CorruptFrame | UnknownVersion {
  const version = /^\{"v":(\d+),/.exec(line)?.[1];
  return version !== undefined && Number(version) !== FRAME_VERSION
    ? new UnknownVersion({
        version: Number(version),
        message: `format version ${version}; this release reads version ${FRAME_VERSION}: upgrade it`,
      })
    : new CorruptFrame({ message: "the frame's prefix is damaged" });
}
