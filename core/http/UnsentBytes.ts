/**
 * Bounds the bytes that a server keeps for peers that do not read, of all peers together. A server
 * has two: one for its sockets and one for its HTTP answers. Past the total, the peers with the
 * most unsent bytes are cut off, and peers that are slightly behind keep theirs. Both adapters of
 * `HttpServer` report to it.
 *
 * A socket's bytes grow because its peer is slow. An answer is large from its start, so its size
 * says nothing about its reader: one that took something within `graceMs` is not cut off.
 *
 * Peers are reported when something is sent, and read later. The sum of the reports is therefore an
 * upper bound, and is recounted before a peer is cut off.
 */

/** A socket or an answer as this bound sees it. */
export interface UnsentReader {
  /** How many bytes are unsent now. For an answer: the bytes of its body that are kept. */
  readonly unsentBytes: number;
  /** Ends the connection and frees its bytes at once: no close frame reaches the peer. */
  cut(): void;
}

/** How long a peer may take nothing before it can be cut off, by a clock that never goes back. */
export interface Grace {
  readonly graceMs: number;
  readonly nowMs: () => number;
}

interface Report {
  readonly bytes: number;
  readonly atMs: number;
}

/** The part of the total to which cuts reduce the sum, so that the next frame needs no recount. */
const RELIEVED = 7 / 8;

const NO_GRACE: Grace = { graceMs: 0, nowMs: () => 0 };

export class UnsentBytes {
  readonly #bytesMax: number;
  readonly #grace: Grace;
  /** What each peer had when it was last reported. Absent: nothing. */
  readonly #reported = new Map<UnsentReader, Report>();
  #sum = 0;

  /** `bytesMax`: of all peers together. Without `grace`, any peer may be cut off. */
  constructor(bytesMax: number, grace = NO_GRACE) {
    this.#bytesMax = bytesMax;
    this.#grace = grace;
  }

  /** Something was sent to the peer, or taken by it. */
  report(reader: UnsentReader): void {
    this.#set(reader, reader.unsentBytes, this.#grace.nowMs());
    if (this.#sum > this.#bytesMax) this.#relieve(this.#bytesMax, this.#bytesMax * RELIEVED);
  }

  /** The peer's bytes are freed, or held. */
  forget(reader: UnsentReader): void {
    this.#set(reader, 0, 0);
  }

  /**
   * Whether the total has room for these bytes, after cuts if they are needed. More bytes than the
   * total have room when there are no others.
   */
  makeRoom(bytes: number): boolean {
    const room = Math.max(0, this.#bytesMax - bytes);
    if (this.#sum > room) this.#relieve(room, Math.min(room, this.#bytesMax * RELIEVED));
    return this.#sum <= room;
  }

  /**
   * Counts bytes that the library still holds for a closed socket, until `release`. Returns false,
   * and counts nothing, if the total has no room for them.
   */
  hold(bytes: number): boolean {
    if (this.#sum + bytes > this.#bytesMax) return false;
    this.#sum += bytes;
    return true;
  }

  release(bytes: number): void {
    this.#sum -= bytes;
  }

  #set(reader: UnsentReader, bytes: number, atMs: number): void {
    this.#sum += bytes - (this.#reported.get(reader)?.bytes ?? 0);
    if (bytes === 0) this.#reported.delete(reader);
    else this.#reported.set(reader, { bytes, atMs });
  }

  /** Nobody is cut off if the recounted sum is within `allowed`; else until it is `relieved`. */
  #relieve(allowed: number, relieved: number): void {
    for (const [reader, { atMs }] of this.#reported) this.#set(reader, reader.unsentBytes, atMs);
    if (this.#sum <= allowed) return;
    const tookMs = this.#grace.nowMs() - this.#grace.graceMs;
    const slow = [...this.#reported].filter(([, { atMs }]) => atMs <= tookMs);
    const most = slow.toSorted(([, a], [, b]) => b.bytes - a.bytes);
    for (const [reader] of most) {
      if (this.#sum <= relieved) return;
      this.forget(reader);
      reader.cut();
    }
  }
}
