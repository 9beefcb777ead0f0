/**
 * Collects a body that arrives in pieces, and refuses a piece that would exceed the limit before
 * keeping it (rule 1 of HttpServer.ts). Adapters may reuse the memory of a piece: each is copied
 * once, into a buffer that doubles. A caller that declares 25 MiB and sends 10 bytes therefore
 * costs 16 KiB, and one that sends it all costs at most twice the size while the buffer grows.
 */

// Most webhooks that don't fit into one packet fit into this first allocation.
const FIRST_BYTES = 16 * 1024;

/** The text of the 413. */
export const tooLarge = (limit: number): string =>
  `Content too large: at most ${limit} bytes are accepted here`;

export class BodyBuffer {
  #bytes: Uint8Array;
  #length = 0;
  readonly #limit: number;

  /** `declared` is the value of content-length, if there is one; it must be within `limit`. */
  constructor(limit: number, declared?: number) {
    this.#limit = declared ?? limit;
    this.#bytes = new Uint8Array(Math.min(this.#limit, FIRST_BYTES));
  }

  /** Returns false if the piece would exceed the limit. Neither it nor the buffer is kept then. */
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
