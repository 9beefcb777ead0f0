/**
 * An empty gzip member of a given length. It replaces an erased part, so that the parts behind it
 * keep their places and `zcat` still reads the file. A comment, a field of gzip's header that can
 * have any length, fills it (RFC 1952).
 */

/** Magic, method "deflate", flag "there is a comment", no time, no extra flags, unknown system. */
const HEADER = [0x1f, 0x8b, 8, 0x10, 0, 0, 0, 0, 0, 0xff];
/** The end of the comment, an empty last block, and the CRC and length of empty content. */
const TRAILER = [0, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0];
const FILLER = "-";

/** `bytes`: at least 21, which is less than any member with content has. */
export const emptyMember = (bytes: number): Buffer =>
  Buffer.concat([
    Buffer.from(HEADER),
    Buffer.alloc(bytes - HEADER.length - TRAILER.length, FILLER),
    Buffer.from(TRAILER),
  ]);
