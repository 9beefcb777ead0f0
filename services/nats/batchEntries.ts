/**
 * The content of a parcel (`RequestBatcher`): a version, then entries, each:
 *
 *     u8   kind
 *     u48  id      of the request; 0 for kinds without one
 *     u16  bytes of the subject
 *     u32  bytes of the data
 *     the subject in UTF-8, the data
 *
 * Numbers are little-endian. A reader passes over kinds that it does not know, and over a whole parcel of another version.
 */
/** Written by this release, and the only one that it reads. */
const PARCEL_VERSION = 1;

export const Kind = {
  /** Somebody awaits an answer with this id. */
  Request: 1,
  Answer: 2,
  /** Nobody listens alone here on the subject of the request: nothing was delivered. */
  Nobody: 3,
  /** The sender listens alone on the subject, a pattern, and takes parcels. */
  Offer: 4,
  /** Does this arrive? */
  Hello: 5,
  /** It does. */
  Welcome: 6,
} as const;

export interface Entry {
  readonly kind: number;
  readonly id: number;
  readonly subject: string;
  readonly data: Uint8Array;
}

/** Of an id: more requests than a process makes in its life. */
const ID_BYTES = 6;
/** After the kind. */
const ID_AT = 1;
const SUBJECT_LENGTH_AT = ID_AT + ID_BYTES;
const DATA_LENGTH_AT = SUBJECT_LENGTH_AT + 2;
/** Of an entry, before its subject. */
const HEAD_BYTES = DATA_LENGTH_AT + 4;
/** Before the first entry. */
const VERSION_BYTES = 1;
/** UTF-8 bytes that one UTF-16 unit takes at most. */
const UTF8_BYTES_MAX = 3;

/** Bytes that an entry takes at most. */
export const entryBytesMax = (subject: string, data: Uint8Array): number =>
  HEAD_BYTES + subject.length * UTF8_BYTES_MAX + data.length;

/** `bytesMax`: the sum of `entryBytesMax`. */
export function encodeParcel(entries: ReadonlyArray<Entry>, bytesMax: number): Uint8Array {
  const out = Buffer.allocUnsafe(VERSION_BYTES + bytesMax);
  out[0] = PARCEL_VERSION;
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

/** What can be read, in order; data are views. Says whether that was all of it. */
export function readParcel(bytes: Uint8Array, take: (entry: Entry) => void): boolean {
  const parcel = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length);
  if (parcel[0] !== PARCEL_VERSION) return false;
  let at = VERSION_BYTES;
  while (at < parcel.length) {
    if (at + HEAD_BYTES > parcel.length) return false;
    const subjectAt = at + HEAD_BYTES;
    const dataAt = subjectAt + parcel.readUInt16LE(at + SUBJECT_LENGTH_AT);
    const end = dataAt + parcel.readUInt32LE(at + DATA_LENGTH_AT);
    if (end > parcel.length) return false;
    take({
      kind: parcel[at]!,
      id: parcel.readUIntLE(at + ID_AT, ID_BYTES),
      subject: parcel.toString("utf8", subjectAt, dataAt),
      data: bytes.subarray(dataAt, end),
    });
    at = end;
  }
  return true;
}
