/**
 * The encoding of a batch of requests and answers (`RequestBatcher`): a version byte, then entries.
 * Each entry is:
 *
 *     u8   kind
 *     u48  id of the request; 0 for kinds without one
 *     u16  length of the subject in bytes
 *     u32  length of the data in bytes
 *     the subject in UTF-8, the data
 *
 * Numbers are little-endian. A reader ignores kinds that it does not know, and ignores a whole
 * batch of another version.
 */
/** The version that this release writes, and the only one that it reads. */
const BATCH_VERSION = 1;

export const Kind = {
  /** The sender awaits an answer with this id. */
  Request: 1,
  Answer: 2,
  /** This process has no exclusive listener on the request's subject. Nothing was delivered. */
  NoListener: 3,
  /**
   * The sender is the exclusive listener on the subject, a pattern, and accepts batches. The id is
   * that of a request which it has not answered yet; 0 from older releases.
   */
  Offer: 4,
  /** Asks whether batches reach the receiver. */
  Hello: 5,
  /** Confirms a `Hello`. */
  Welcome: 6,
} as const;

export interface Entry {
  readonly kind: number;
  readonly id: number;
  readonly subject: string;
  readonly data: Uint8Array;
}

/** Six bytes number more requests than a process makes in its life. */
const ID_BYTES = 6;
/** The id follows the kind. */
const ID_AT = 1;
const SUBJECT_LENGTH_AT = ID_AT + ID_BYTES;
const DATA_LENGTH_AT = SUBJECT_LENGTH_AT + 2;
/** Length of an entry before its subject. */
const HEAD_BYTES = DATA_LENGTH_AT + 4;
/** Length of the version, before the first entry. */
const VERSION_BYTES = 1;
/** The most UTF-8 bytes that one UTF-16 code unit takes. */
const UTF8_BYTES_MAX = 3;

/** An upper bound of an entry's encoded length in bytes. */
export const entryBytesMax = (subject: string, data: Uint8Array): number =>
  HEAD_BYTES + subject.length * UTF8_BYTES_MAX + data.length;

/** `bytesMax`: the sum of the entries' `entryBytesMax`. */
export function encodeBatch(entries: ReadonlyArray<Entry>, bytesMax: number): Uint8Array {
  const out = Buffer.allocUnsafe(VERSION_BYTES + bytesMax);
  out[0] = BATCH_VERSION;
  let at = VERSION_BYTES;
  for (const { kind, id, subject, data } of entries) {
    const subjectBytes = subject === "" ? 0 : out.write(subject, at + HEAD_BYTES);
    out[at] = kind;
    out.writeUIntLE(id, at + ID_AT, ID_BYTES);
    out.writeUInt16LE(subjectBytes, at + SUBJECT_LENGTH_AT);
    out.writeUInt32LE(data.length, at + DATA_LENGTH_AT);
    at += HEAD_BYTES + subjectBytes;
    out.set(data, at);
    at += data.length;
  }
  return out.subarray(0, at);
}

/**
 * Calls `take` with each entry that can be decoded, in order; its data is a view of `bytes`.
 * Returns whether the whole batch was decoded.
 */
export function readBatch(bytes: Uint8Array, take: (entry: Entry) => void): boolean {
  const batch = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length);
  if (batch[0] !== BATCH_VERSION) return false;
  let at = VERSION_BYTES;
  while (at < batch.length) {
    if (at + HEAD_BYTES > batch.length) return false;
    const subjectAt = at + HEAD_BYTES;
    const dataAt = subjectAt + batch.readUInt16LE(at + SUBJECT_LENGTH_AT);
    const end = dataAt + batch.readUInt32LE(at + DATA_LENGTH_AT);
    if (end > batch.length) return false;
    take({
      kind: batch[at]!,
      id: batch.readUIntLE(at + ID_AT, ID_BYTES),
      subject: batch.toString("utf8", subjectAt, dataAt),
      data: bytes.subarray(dataAt, end),
    });
    at = end;
  }
  return true;
}
