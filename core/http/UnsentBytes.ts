/**
 * Bounds the unsent bytes of all sockets of a server together. Each peer that does not read takes
 * up to `socketBufferBytesMax` of memory, and there may be many. Past the total, the sockets with
 * the most unsent bytes are cut off, and peers that are slightly behind keep theirs. Both adapters
 * of `HttpServer` report to it.
 *
 * Sockets report when something is sent, and peers read later. The sum of the reports is therefore
 * an upper bound, and is recounted before a socket is cut off.
 */

/** A socket as this bound sees it. */
export interface UnsentSocket {
  /** How many bytes are unsent now. */
  readonly unsentBytes: number;
  /** Ends the connection and frees its bytes at once: no close frame reaches the peer. */
  cut(): void;
}

/** The part of the total to which cuts reduce the sum, so that the next frame needs no recount. */
const RELIEVED = 7 / 8;

export class UnsentBytes {
  readonly #bytesMax: number;
  /** What each socket had when it was last reported. Absent: nothing. */
  readonly #reported = new Map<UnsentSocket, number>();
  #sum = 0;

  /** `bytesMax`: of all sockets together. */
  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax;
  }

  /** Something was sent to the socket. */
  report(socket: UnsentSocket): void {
    this.#set(socket, socket.unsentBytes);
    if (this.#sum > this.#bytesMax) this.#relieve();
  }

  /** The socket's bytes are freed, or held. */
  forget(socket: UnsentSocket): void {
    this.#set(socket, 0);
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

  #set(socket: UnsentSocket, bytes: number): void {
    this.#sum += bytes - (this.#reported.get(socket) ?? 0);
    if (bytes === 0) this.#reported.delete(socket);
    else this.#reported.set(socket, bytes);
  }

  #relieve(): void {
    for (const socket of this.#reported.keys()) this.#set(socket, socket.unsentBytes);
    if (this.#sum <= this.#bytesMax) return;
    const most = [...this.#reported].toSorted(([, a], [, b]) => b - a);
    for (const [socket] of most) {
      if (this.#sum <= this.#bytesMax * RELIEVED) return;
      this.#set(socket, 0);
      socket.cut();
    }
  }
}
