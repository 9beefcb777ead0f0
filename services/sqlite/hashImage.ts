/** Names an image for comparison: two databases are the same iff these are. */
import { createHash } from "node:crypto";

/** SHA-256 of an image (`AgentDatabase.image()`), lower-case hex. */
export const hashImage = (image: Uint8Array): string =>
  createHash("sha256").update(image).digest("hex");
