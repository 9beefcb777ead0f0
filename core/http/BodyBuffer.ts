/**
 * Collects a body that arrives in pieces, and refuses a piece that would exceed the limit before
 * keeping it (rule 1 of HttpServer.ts). Adapters may reuse the memory of a piece: each is copied
 * once, into a buffer that doubles. A caller that declares 25 MiB and sends 10 bytes therefore
 * costs 16 KiB, and one that sends it all costs at most twice the size while the buffer grows.
 *
 * The buffers of a server share a total (rule 9 of HttpServer.ts). One above `COUNTED_BYTES_MIN` is
 * counted until `free`, when its request is answered or has ended.
 */
import { COUNTED_BYTES_MIN, type Peer, type PeerBytes } from "./PeerBytes.ts";

// Most webhooks that don't fit into one packet fit into this first allocation.
const FIRST_BYTES = 16 * 1024;
const NONE = new Uint8Array(0);

/** The total that a server's buffers share. */
interface SharedTotal {
  readonly total: PeerBytes;
  /** Called once if the buffer has to make room for others. Nothing more is to be added. */
  readonly refuse: () => void;
}

export class BodyBuffer implements Peer {
  #bytes = NONE;
  #length = 0;
  readonly #limit: number;
  readonly #shared: SharedTotal | undefined;
  /** Bytes of a complete body that are counted. */
  #held = 0;

  /** `declared` is the value of content-length, if there is one; it must be within `limit`. */
  constructor(limit: number, declared?: number, shared?: SharedTotal) {
    this.#limit = declared ?? limit;
    this.#shared = shared;
  }

  get keptBytes(): number {
    return this.#bytes.byteLength;
  }

  /** Returns false if the piece would exceed the limit. Neither it nor the buffer is kept then. */
  add(piece: Uint8Array): boolean {
    const length = this.#length + piece.byteLength;
    if (length > this.#limit) {
      this.free();
      return false;
    }
    if (length > this.#bytes.byteLength) this.#grow(length);
    this.#bytes.set(piece, this.#length);
    this.#length = length;
    // After the piece is in place: the buffer may be the one that has to make room.
    if (this.keptBytes > COUNTED_BYTES_MIN) this.#shared?.total.report(this);
    return true;
  }

  /** The complete body. It can't be cut off any more, and counts until `free`. */
  take(): Uint8Array {
    const { total } = this.#shared ?? {};
    total?.forget(this);
    if (this.#length > COUNTED_BYTES_MIN && total?.hold(this.#length) === true)
      this.#held = this.#length;
    return this.#bytes.subarray(0, this.#length);
  }

  /** The body is not used any more, complete or not. */
  free(): void {
    this.#shared?.total.forget(this);
    this.#shared?.total.release(this.#held);
    this.#held = 0;
    this.#length = 0;
    this.#bytes = NONE;
  }

  cut(): void {
    this.free();
    this.#shared?.refuse();
  }

  #grow(needed: number): void {
    const doubled = Math.max(needed, this.#bytes.byteLength * 2, FIRST_BYTES);
    const bytes = new Uint8Array(Math.min(doubled, this.#limit));
    bytes.set(this.#bytes.subarray(0, this.#length));
    this.#bytes = bytes;
  }
}
