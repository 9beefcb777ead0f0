/**
 * The unsent bytes of a server's sockets, of which there may be many: each peer that does not read
 * what it is sent holds up to `socketBufferBytesMax` of the server's memory. Past a total, the
 * sockets with the most are cut off, so that a few readers that are a little late are never among
 * them. Both adapters of `HttpServer` report to it.
 *
 * A report is what was true when something was sent. Peers read meanwhile, so the sum is an upper
 * bound, and is counted anew before anybody is cut off.
 */

export interface UnsentSocket {
  /** How many bytes are unsent now. */
  readonly unsentBytes: number;
  /** Ends the connection and frees its bytes at once: no close frame reaches the peer. */
  cut(): void;
}

/** Cut off are so many that the next count is not due with the next frame. */
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
   * Counts bytes of a closed socket that its library still holds and does not tell of, until
   * `release`. Returns false, and counts nothing, where there is no room for them.
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
