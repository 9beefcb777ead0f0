/**
 * Bounds the unsent bytes of all sockets and answers of a server together. A peer that does not
 * read takes up to `socketBufferBytesMax` of memory, or a whole answer, and there may be many. Past
 * the total, those with the most unsent bytes are cut off, and peers that are slightly behind keep
 * theirs. Both adapters of `HttpServer` report to it.
 *
 * Reports are made when something is sent, and peers read later. The sum of the reports is
 * therefore an upper bound, and is recounted before anything is cut off.
 */

/** A socket, or an answer (`services/node/HeldAnswer`), as this bound sees it. */
export interface UnsentPeer {
  /** How many bytes are unsent now. */
  readonly unsentBytes: number;
  /** False for a peer that is to keep its bytes for now, although they exceed the total. */
  readonly stalled: boolean;
  /** Ends the connection and frees its bytes at once: no close frame reaches the peer. */
  cut(): void;
}

/** The part of the total to which cuts reduce the sum, so that the next frame needs no recount. */
const RELIEVED = 7 / 8;

export class UnsentBytes {
  readonly #bytesMax: number;
  /** What each peer had when it was last reported. Absent: nothing. */
  readonly #reported = new Map<UnsentPeer, number>();
  #sum = 0;

  /** `bytesMax`: of all together. */
  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax;
  }

  /** Something was sent to the peer. */
  report(peer: UnsentPeer): void {
    this.#set(peer, peer.unsentBytes);
    if (this.#sum > this.#bytesMax) this.#relieve();
  }

  /** The peer's bytes are freed, or held. */
  forget(peer: UnsentPeer): void {
    this.#set(peer, 0);
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

  #set(peer: UnsentPeer, bytes: number): void {
    this.#sum += bytes - (this.#reported.get(peer) ?? 0);
    if (bytes === 0) this.#reported.delete(peer);
    else this.#reported.set(peer, bytes);
  }

  #relieve(): void {
    for (const peer of this.#reported.keys()) this.#set(peer, peer.unsentBytes);
    if (this.#sum <= this.#bytesMax) return;
    const most = [...this.#reported]
      .filter(([peer]) => peer.stalled)
      .toSorted(([, a], [, b]) => b - a);
    for (const [peer] of most) {
      if (this.#sum <= this.#bytesMax * RELIEVED) return;
      this.#set(peer, 0);
      peer.cut();
    }
  }
}
