/**
 * Copies bytes into an `ArrayBuffer` that holds nothing else, for code of an app. The bytes of a
 * request are often a Node `Buffer`: a view of a pool that other requests share, whose own `slice`
 * copies nothing, so that `bytes.slice().buffer` would be the whole pool.
 */

/** A copy of the bytes. Its length is theirs, whatever they are a view of. */
export const ownBuffer = (bytes: Uint8Array): ArrayBuffer => new Uint8Array(bytes).buffer;

/** A copy of the bytes of what a call was given: the caller may reuse its buffer. */
export const ownBytes = (given: ArrayBuffer | ArrayBufferView): Uint8Array<ArrayBuffer> =>
  ArrayBuffer.isView(given)
    ? new Uint8Array(given.buffer, given.byteOffset, given.byteLength).slice()
    : new Uint8Array(given).slice();
