/** Pieces of bytes, one after the other, in an array of their own: of bodies, messages and blobs that came in parts. */
export function joinBytes(pieces: ReadonlyArray<Uint8Array>): Uint8Array {
  const all = new Uint8Array(pieces.reduce((bytes, piece) => bytes + piece.length, 0));
  let at = 0;
  for (const piece of pieces) {
    all.set(piece, at);
    at += piece.length;
  }
  return all;
}
