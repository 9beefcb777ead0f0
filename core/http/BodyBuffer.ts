/**
 * Gathers a body that comes in pieces, within a limit that holds before a byte past it is kept
 * (rule 1 of HttpServer.ts). Adapters feed it pieces they may reuse: each is copied once, into a
 * buffer that doubles, so a caller who declares 25 MiB and sends 10 bytes costs 16 KiB, and one who
 * sends it all costs at most twice that while it grows.
 */

// The first allocation: most webhooks that don't fit one packet fit this.
const FIRST_BYTES = 16 * 1024;

/** The text of the 413. */
export const tooLarge = (limit: number): string =>
  `Content too large: at most ${limit} bytes are accepted here`;

export class BodyBuffer {
  #bytes: Uint8Array;
  #length = 0;
  readonly #limit: number;

  /** `declared`: what content-length says, if it says; it must be within `limit`. */
  constructor(limit: number, declared?: number) {
    this.#limit = declared ?? limit;
    this.#bytes = new Uint8Array(Math.min(this.#limit, FIRST_BYTES));
  }

  /** False when the piece would pass the limit: it is not kept and the buffer is given up. */
  add(piece: Uint8Array): boolean {
    const length = this.#length + piece.byteLength;
    if (length > this.#limit) {
      this.#bytes = new Uint8Array(0);
      this.#length = 0;
      return false;
    }
    if (length > this.#bytes.byteLength) this.#grow(length);
    this.#bytes.set(piece, this.#length);
    this.#length = length;
    return true;
  }

  take(): Uint8Array {
    return this.#bytes.subarray(0, this.#length);
  }

  #grow(needed: number): void {
    const doubled = Math.max(needed, this.#bytes.byteLength * 2);
    const bytes = new Uint8Array(Math.min(doubled, this.#limit));
    bytes.set(this.#bytes.subarray(0, this.#length));
    this.#bytes = bytes;
  }
}
