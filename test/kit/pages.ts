/** Images of databases in tests: their hashes, and deltas applied in the simplest way. */
import { createHash } from "node:crypto";
import { checkPagesBefore, decodePageDelta } from "../../schemas/PageDelta.ts";

/** SHA-256 of an image (`AgentDatabase.image()`), in hex. */
export const hashImage = (image: Uint8Array): string =>
  createHash("sha256").update(image).digest("hex");

/** Numbers of the pages that a delta changes, from 1. Throws as `decodePageDelta`. */
export function changedPages(bytes: Uint8Array): number[] {
  const pages = new Set<number>();
  decodePageDelta(bytes).forEach((page) => pages.add(page));
  return [...pages];
}

/** The image after a delta, as a new buffer. Throws as `decodePageDelta`. */
export function applyPageDelta(image: Uint8Array, bytes: Uint8Array): Uint8Array {
  const delta = decodePageDelta(bytes);
  const { pageSize } = delta;
  checkPagesBefore(delta, image.length / pageSize);
  const next = new Uint8Array(delta.pages * pageSize);
  next.set(image.subarray(0, delta.pagesKept * pageSize));
  delta.forEach((page, offset, from, length) =>
    next.set(bytes.subarray(from, from + length), (page - 1) * pageSize + offset),
  );
  return next;
}
