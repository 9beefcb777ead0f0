/**
 * Concatenates pieces of bytes into a new array, for bodies, messages and blobs that arrive in
 * parts.
 */
export function joinBytes(pieces: ReadonlyArray<Uint8Array>): Uint8Array {
  const all = new Uint8Array(pieces.reduce((bytes, piece) => bytes + piece.length, 0));
  let at = 0;
  for (const piece of pieces) {
    all.set(piece, at);
    at += piece.length;
  }
  return all;
}
