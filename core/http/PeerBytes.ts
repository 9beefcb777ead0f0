/**
 * Bounds the bytes that a server keeps of peers, of all peers together. A server has three totals:
 * for what its sockets and for what its HTTP answers have not sent to peers that do not read, and
 * for the bodies of requests; a gateway has a fourth, for clients' messages that wait. Past a
 * total, the peers with the most bytes are cut off, and peers with few keep theirs. Both adapters
 * of `HttpServer` report to it, and `ClientMessages`.
 *
 * A socket's bytes grow because its peer is slow. An answer is large from its start, so its size
 * says nothing about its peer: one that took something within `graceMs` is not cut off.
 *
 * Peers are reported when something is sent, and read later. The sum of the reports is therefore an
 * upper bound, and is recounted before a peer is cut off.
 */

/** A socket, an answer, a body or a client's waiting messages as this bound sees it. */
export interface Peer {
  /** How many bytes are kept now: of a socket or an answer those that are unsent. */
  readonly keptBytes: number;
  /**
   * Frees the bytes at once. Ends the connection of a socket, without a close frame, and of an
   * answer. Refuses the request of a body, and closes the socket of messages.
   */
  cut(): void;
}

/** How long a peer may take nothing before it can be cut off, by a clock that never goes back. */
interface Grace {
  readonly graceMs: number;
  readonly nowMs: () => number;
}

interface Report {
  readonly bytes: number;
  readonly atMs: number;
}

/**
 * Answers and bodies up to this size are neither counted nor refused. Such answers fit into the
 * kernel's buffers, because a connection that does not read receives no second one. Such bodies are
 * those of almost all webhooks.
 */
export const COUNTED_BYTES_MIN = 64 * 1024;

/**
 * Bytes of the largest frame above the limit of its socket that may be unsent, and so does not
 * count (rule 5 of HttpServer.ts); 0 without one. `before`: what this returned last.
 */
export function largestUnsent(
  before: number,
  socket: {
    readonly keptBytes: number;
    readonly newest: string | Uint8Array;
    readonly bytesMax: number;
  },
): number {
  const { keptBytes, newest, bytesMax } = socket;
  if (keptBytes <= bytesMax) return 0;
  const bytes = Buffer.byteLength(newest);
  return bytes > bytesMax ? Math.max(before, bytes) : before;
}

/** The part of the total to which cuts reduce the sum, so that the next frame needs no recount. */
const RELIEVED = 7 / 8;

const NO_GRACE: Grace = { graceMs: 0, nowMs: () => 0 };

export class PeerBytes {
  readonly #bytesMax: number;
  readonly #grace: Grace;
  /** What each peer had when it was last reported. Absent: nothing. */
  readonly #reported = new Map<Peer, Report>();
  #sum = 0;

  /** `bytesMax`: of all peers together. Without `grace`, any peer may be cut off. */
  constructor(bytesMax: number, grace = NO_GRACE) {
    this.#bytesMax = bytesMax;
    this.#grace = grace;
  }

  /** Something was sent to the peer, or taken by it. */
  report(peer: Peer): void {
    this.#set(peer, peer.keptBytes, this.#grace.nowMs());
    if (this.#sum > this.#bytesMax) this.#relieve(this.#bytesMax, this.#bytesMax * RELIEVED);
  }

  /** The peer's bytes are freed, or held. */
  forget(peer: Peer): void {
    this.#set(peer, 0, 0);
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
   * Counts bytes that cannot be freed until `release`: those that the library still holds for a
   * closed socket, and complete bodies. Returns false, and counts nothing, if the total has no room
   * for them.
   */
  hold(bytes: number): boolean {
    if (this.#sum + bytes > this.#bytesMax) return false;
    this.#sum += bytes;
    return true;
  }

  release(bytes: number): void {
    this.#sum -= bytes;
  }

  #set(peer: Peer, bytes: number, atMs: number): void {
    this.#sum += bytes - (this.#reported.get(peer)?.bytes ?? 0);
    if (bytes === 0) this.#reported.delete(peer);
    else this.#reported.set(peer, { bytes, atMs });
  }

  /** Nobody is cut off if the recounted sum is within `allowed`; else until it is `relieved`. */
  #relieve(allowed: number, relieved: number): void {
    for (const [peer, { atMs }] of this.#reported) this.#set(peer, peer.keptBytes, atMs);
    if (this.#sum <= allowed) return;
    const tookMs = this.#grace.nowMs() - this.#grace.graceMs;
    const slow = [...this.#reported].filter(([, { atMs }]) => atMs <= tookMs);
    const most = slow.toSorted(([, a], [, b]) => b.bytes - a.bytes);
    for (const [peer] of most) {
      if (this.#sum <= relieved) return;
      this.forget(peer);
      peer.cut();
    }
  }
}
