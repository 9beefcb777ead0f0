/**
 * Reads the beginning of a body, or all of it: what its stream returns without waiting. Bodies of
 * bytes or text end there and are answered whole; a body that is still being produced (server-sent
 * events, a model's words) continues as a stream. Uses no timer, and so behaves the same under
 * virtual time.
 */
import { joinBytes } from "../../schemas/joinBytes.ts";

type Reader = ReadableStreamDefaultReader<Uint8Array>;

export interface Ahead {
  readonly bytes: Uint8Array;
  /** The rest of the body; undefined if there is none. */
  readonly rest: PendingBody | undefined;
}

export interface PendingBody {
  readonly reader: Reader;
  /** What was read and not returned. Absent: nothing. */
  readonly held?: Uint8Array | undefined;
  /** A read that was started and has not settled. */
  readonly next: ReturnType<Reader["read"]> | undefined;
}

/** Promise jobs that a stream of ready bytes may take between two pieces. Streams need five. */
const JOBS_MAX = 50;

/** Returns at most `bytesMax` bytes. Rejects with the stream's error if it fails at once. */
export async function readAhead(body: PendingBody, bytesMax: number): Promise<Ahead> {
  const { reader } = body;
  let { next, held } = body;
  const pieces: Uint8Array[] = [];
  let left = bytesMax;
  while (left > 0) {
    if (held === undefined) {
      next ??= reader.read();
      const settled = await atOnce(next);
      if (settled === undefined) return { bytes: joined(pieces), rest: { reader, next } };
      if (settled.done) return { bytes: joined(pieces), rest: undefined };
      next = undefined;
      held = checkPiece(settled.value);
    }
    const piece: Uint8Array = held.subarray(0, left);
    pieces.push(piece);
    left -= piece.length;
    held = piece.length < held.length ? held.subarray(piece.length) : undefined;
  }
  return { bytes: joined(pieces), rest: { reader, next, held } };
}

/** Returns what it is given. A stream of the user's code may yield anything. */
function checkPiece(piece: unknown): Uint8Array {
  if (piece instanceof Uint8Array) return piece;
  throw new TypeError(
    `the stream of a Response's body returned a ${typeof piece}; enqueue Uint8Array (new TextEncoder().encode(text))`,
  );
}

/** The promise's value if it settles within `JOBS_MAX` promise jobs, else undefined. */
async function atOnce<A>(promise: Promise<A>): Promise<A | undefined> {
  let settled = false;
  const note = (): void => void (settled = true);
  promise.then(note, note);
  for (let job = 0; job < JOBS_MAX && !settled; job++) await undefined;
  return settled ? promise : undefined;
}

const joined = (pieces: ReadonlyArray<Uint8Array>): Uint8Array =>
  pieces.length === 1 ? pieces[0]! : joinBytes(pieces);
