/** The hash of a database's image. Two databases are equal if and only if their hashes are. */
import { createHash } from "node:crypto";

/** SHA-256 of an image (`AgentDatabase.image()`), lower-case hex. */
export const hashImage = (image: Uint8Array): string =>
  createHash("sha256").update(image).digest("hex");
